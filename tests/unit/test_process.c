/* SPDX-License-Identifier: Apache-2.0 */
#include "core/segment.h"
#include "trace_reader.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static const char *session;

static void open_session(void)
{
	session = trace_reader_session();
}

static void remove_session(void)
{
	trace_reader_remove(session);
}

static bool write_one(uint64_t number)
{
	struct thread_segment *self = &thread_segment;
	struct record *record;

	if (!segment_is_ready(self))
		segment_enter();
	record = segment_reserve(self, 1);
	if (!record)
		return false;
	*record = (struct record){ .kind = RECORD_TRANSFER, .a = number };
	segment_publish(self, 1);
	return true;
}

/* Children say what is wrong by their exit status: 0 is good. */
static void expect_good_child(pid_t child)
{
	int status;

	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status), "signal %d", WTERMSIG(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}

/* Of `count` transfers written by a process directory: how many are there. */
static uint64_t count_transfers(const char *directory)
{
	struct trace_reader reader;

	trace_reader_open(&reader, directory);
	return trace_reader_count_kind(&reader, 0, RECORD_TRANSFER);
}

static void name_directory(char *path, size_t bytes, pid_t pid)
{
	snprintf(path, bytes, "%s/%d-0", session, (int)pid);
}

static int write_as_child(void)
{
	if (segment_is_ready(&thread_segment))
		return 1;
	if (!segment_enter())
		return 2;
	if (thread_segment.thread != 1)
		return 3;
	for (uint64_t i = 0; i < 3000; i++)
		if (!write_one(i))
			return 4;
	return 0;
}

static void expect_two_traces(pid_t (*make_child)(void))
{
	char directory[256], name[256];
	struct trace_reader reader;
	pid_t child;

	for (uint64_t i = 0; i < 1500; i++)
		write_one(i);
	child = make_child();
	if (!child)
		_exit(write_as_child());
	for (uint64_t i = 0; i < 1500; i++)
		write_one(i);
	expect_good_child(child);
	ck_assert_uint_eq(count_transfers(segment_directory()), 3000);
	name_directory(directory, sizeof(directory), child);
	ck_assert_uint_eq(count_transfers(directory), 3000);
	trace_reader_open(&reader, directory);
	snprintf(name, sizeof(name), "%d-0", getpid());
	ck_assert_str_eq(reader.control->parent, name);
	ck_assert_int_eq(reader.control->parent_pid, getpid());
	ck_assert_uint_eq(reader.control->threads, 1);
}

START_TEST(child_of_fork_has_a_directory_of_its_own)
{
	expect_two_traces(fork);
}
END_TEST

static pid_t raw_fork(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

START_TEST(child_of_raw_clone_is_noticed_too)
{
	expect_two_traces(raw_fork);
}
END_TEST

/* From now on madvise(MADV_WIPEONFORK) fails, as on a kernel that does not know it. */
static void refuse_wiping(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_WIPEONFORK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(fork_is_noticed_where_no_page_is_wiped)
{
	refuse_wiping();
	expect_two_traces(fork);
}
END_TEST

/* Without a wiped page a raw child is noticed at its next chunk only. */
START_TEST(raw_clone_is_noticed_late_where_no_page_is_wiped)
{
	char directory[256];
	pid_t child;

	refuse_wiping();
	write_one(0);
	child = raw_fork();
	if (!child) {
		for (uint64_t i = 0; i < 3 * CHUNK_RECORDS; i++)
			write_one(i);
		_exit(thread_segment.thread != 1);
	}
	expect_good_child(child);
	name_directory(directory, sizeof(directory), child);
	ck_assert_uint_gt(count_transfers(directory), CHUNK_RECORDS);
}
END_TEST

static int child_status = -1;
static pthread_key_t last_key;

/* Behind the end of the recording of this thread, which came in the first round. */
static void leave_at_last(void *rounds)
{
	if (rounds == (void *)1)
		pthread_setspecific(last_key, (void *)2);
	else
		_exit(segment_is_ready(&thread_segment));
}

/* The thread that forks ends in the child as well; it must not close its parent's chunk. */
static void *fork_and_end(void *argument)
{
	pid_t child;

	write_one(0);
	child = fork();
	if (!child) {
		pthread_setspecific(last_key, (void *)1);
		return argument;
	}
	waitpid(child, &child_status, 0);
	write_one(1);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&thread_segment.chunk->header.state) != CHUNK_OWNED)
		child_status = -2;
	return argument;
}

START_TEST(end_of_a_forked_thread_leaves_the_parents_chunk)
{
	pthread_t thread;

	pthread_key_create(&last_key, leave_at_last);
	pthread_create(&thread, NULL, fork_and_end, NULL);
	pthread_join(thread, NULL);
	ck_assert_int_eq(child_status, 0);
	ck_assert_uint_eq(count_transfers(segment_directory()), 2);
}
END_TEST

static _Atomic bool is_done;

static void *write_until_done(void *argument)
{
	for (uint64_t i = 0; !atomic_load(&is_done); i++)
		write_one(i);
	return argument;
}

/* Locks of other threads are never inherited held: every child gets through. */
START_TEST(fork_storm_beside_busy_threads)
{
	pthread_t threads[4];

	setenv("CUSTODY_BUFFER", "4MiB", 1);
	write_one(0);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, write_until_done, NULL);
	for (int i = 0; i < 200; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(20);
			_exit(write_as_child());
		}
		expect_good_child(child);
	}
	atomic_store(&is_done, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

START_TEST(grandchild_names_the_recorded_ancestor)
{
	char directory[256], name[64];
	struct trace_reader reader;
	int pipes[2];
	pid_t child, grandchild = 0;

	write_one(0);
	ck_assert_int_eq(pipe(pipes), 0);
	child = fork();
	if (!child) {
		grandchild = fork();
		if (!grandchild)
			_exit(write_as_child());
		if (write(pipes[1], &grandchild, sizeof(grandchild)) < 0)
			_exit(9);
		waitpid(grandchild, NULL, 0);
		_exit(0);
	}
	expect_good_child(child);
	ck_assert_int_eq(read(pipes[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	name_directory(directory, sizeof(directory), grandchild);
	trace_reader_open(&reader, directory);
	snprintf(name, sizeof(name), "%d-0", getpid());
	ck_assert_str_eq(reader.control->parent, name);
}
END_TEST

START_TEST(images_of_one_pid_have_serial_numbers)
{
	struct trace_reader reader;
	char path[256];

	name_directory(path, sizeof(path), getpid());
	ck_assert_int_eq(mkdir(path, 0700), 0);
	write_one(0);
	trace_reader_open(&reader, segment_directory());
	ck_assert_uint_eq(reader.control->exec_serial, 1);
	ck_assert_str_ne(segment_directory(), path);
}
END_TEST

START_TEST(files_are_for_the_owner_alone)
{
	struct stat status;
	char path[256];

	umask(0);
	write_one(0);
	ck_assert_int_eq(stat(segment_directory(), &status), 0);
	ck_assert_uint_eq(status.st_mode & 0777, 0700);
	snprintf(path, sizeof(path), "%s/segment.0", segment_directory());
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_uint_eq(status.st_mode & 0777, 0600);
	ck_assert_int_eq(status.st_size, SEGMENT_BYTES);
	ck_assert_int_ge(status.st_blocks, SEGMENT_BYTES / 512);
}
END_TEST

static int count_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

START_TEST(no_descriptor_is_kept)
{
	int before = count_descriptors();

	for (uint64_t i = 0; i < 50 * CHUNK_RECORDS; i++)
		ck_assert(write_one(i));
	ck_assert_int_eq(count_descriptors(), before);
}
END_TEST

START_TEST(recording_survives_closed_descriptors_and_chdir)
{
	ck_assert(write_one(0));
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	ck_assert_int_eq(chdir("/"), 0);
	for (uint64_t i = 1; i < 50 * CHUNK_RECORDS; i++)
		ck_assert(write_one(i));
}
END_TEST

START_TEST(daemon_without_standard_descriptors_stays_so)
{
	int kept[3];

	for (int fd = 0; fd < 3; fd++) {
		kept[fd] = fcntl(fd, F_DUPFD, 100);
		close(fd);
	}
	for (uint64_t i = 0; i < 50 * CHUNK_RECORDS; i++)
		write_one(i);
	for (int fd = 0; fd < 3; fd++) {
		bool is_closed = fcntl(fd, F_GETFD) < 0;

		dup2(kept[fd], fd);
		ck_assert(is_closed);
	}
	ck_assert_uint_eq(count_transfers(segment_directory()), 50 * CHUNK_RECORDS);
}
END_TEST

START_TEST(children_none_records_the_root_alone)
{
	char root[32];
	pid_t child;

	setenv("CUSTODY_CHILDREN", "none", 1);
	snprintf(root, sizeof(root), "%d", getpid());
	setenv("CUSTODY_ROOT", root, 1);
	ck_assert(write_one(0));
	child = fork();
	if (!child)
		_exit(!segment_enter() || write_one(1) || segment_directory()[0]);
	expect_good_child(child);
	ck_assert(write_one(2));
}
END_TEST

START_TEST(other_process_than_the_root_is_not_recorded)
{
	setenv("CUSTODY_CHILDREN", "none", 1);
	setenv("CUSTODY_ROOT", "1", 1);
	ck_assert(segment_enter());
	ck_assert(segment_is_ready(&thread_segment));
	ck_assert(!write_one(0));
	ck_assert_str_eq(segment_directory(), "");
	segment_end(CONTROL_EXITED);
	segment_set_driver(1);
}
END_TEST

/* Run this program as a child of a shell; true: it was recorded. */
static bool is_recorded_under(const char *shells, const char *own)
{
	char command[2048], self[256], output[256], answer = 0;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int fd;

	self[length > 0 ? length : 0] = '\0';
	snprintf(output, sizeof(output), "%s/answer", session);
	snprintf(command, sizeof(command), "env %s sh -c '%s \"%s\" record > %s; :' 2>/dev/null",
		 shells, own, self, output);
	ck_assert_int_eq(system(command), 0);
	fd = open(output, O_RDONLY);
	ck_assert_int_eq(read(fd, &answer, 1), 1);
	close(fd);
	return answer == 'y';
}

/* What is_recorded_under() starts. */
static int answer_whether_recorded(void)
{
	segment_enter();
	return write(STDOUT_FILENO, segment_directory()[0] ? "y" : "n", 1) != 1;
}

/* Without `record`, the first process under the preload is the one that counts. */
START_TEST(children_none_looks_at_the_parent)
{
	static const char with[] = "LD_PRELOAD=/nowhere/libcustody-preload.so "
				   "CUSTODY_CHILDREN=none";

	unsetenv("CUSTODY_ROOT");
	ck_assert(is_recorded_under("X=1", ""));
	ck_assert(is_recorded_under("X=1", with));
	ck_assert(!is_recorded_under(with, ""));
	ck_assert(is_recorded_under(with, "CUSTODY_CHILDREN=all"));
}
END_TEST

START_TEST(end_is_the_process_own)
{
	struct trace_reader reader;
	pid_t child;

	write_one(0);
	child = fork();
	if (!child) {
		segment_end(CONTROL_EXITED);
		_exit(0);
	}
	expect_good_child(child);
	trace_reader_open(&reader, segment_directory());
	ck_assert_uint_eq(reader.control->end_state, CONTROL_RUNNING);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("process");
	TCase *tests = tcase_create("process");
	SRunner *runner = srunner_create(suite);
	int failed;

	if (argc == 2 && !strcmp(argv[1], "record"))
		return answer_whether_recorded();
	tcase_add_checked_fixture(tests, open_session, remove_session);
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, child_of_fork_has_a_directory_of_its_own);
	tcase_add_test(tests, child_of_raw_clone_is_noticed_too);
	tcase_add_test(tests, fork_is_noticed_where_no_page_is_wiped);
	tcase_add_test(tests, raw_clone_is_noticed_late_where_no_page_is_wiped);
	tcase_add_test(tests, end_of_a_forked_thread_leaves_the_parents_chunk);
	tcase_add_test(tests, fork_storm_beside_busy_threads);
	tcase_add_test(tests, grandchild_names_the_recorded_ancestor);
	tcase_add_test(tests, images_of_one_pid_have_serial_numbers);
	tcase_add_test(tests, files_are_for_the_owner_alone);
	tcase_add_test(tests, no_descriptor_is_kept);
	tcase_add_test(tests, recording_survives_closed_descriptors_and_chdir);
	tcase_add_test(tests, daemon_without_standard_descriptors_stays_so);
	tcase_add_test(tests, children_none_records_the_root_alone);
	tcase_add_test(tests, other_process_than_the_root_is_not_recorded);
	tcase_add_test(tests, children_none_looks_at_the_parent);
	tcase_add_test(tests, end_is_the_process_own);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
