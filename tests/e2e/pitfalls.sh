#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The traps of the driver's interface.  The client `pitfall` walks into one by
# name; what it sees must be the same bare and under every policy, and the trace
# must tell it right.  The numbers are those of the areas of the interface:
#
#	    trap						case			GPU
# 4.1	memory of the device, the host, and both
#	    a free takes bases of linear memory alone		free-takes		yes
#	    a free waits, but not that of a pool's block	free-waits		yes
#	    what a block takes is not what was asked for	footprint		yes
#	    the driver keeps memory of its own			hidden-memory		yes
#	    registered memory is the client's			registered		yes
#	    managed memory says that it is the device's		managed			yes
#	    a question that changes the block			tokens			yes
#	    an address comes back, its block does not		identity		yes
# 4.2	pools
#	    a free in stream order takes plain blocks		pool-free-async		yes
#	    bytes stay reserved until a synchronise		pool-threshold		yes
#	    a trim leaves what is not seen done			pool-trim		yes
#	    a pool's own account misses a plain free		pool-used		yes
#	    blocks outlive their pool				pool-destroyed		yes
#	    blocks outlive the context				pool-reset		yes
#	    passes that give blocks back spare pools		pool-beside-frees	yes
#	    imported pools cannot allocate			pool-import		yes
#	    pools ask who may reach them			peer-pools		with two
# 4.3	memory mapped by hand
#	    handles and mappings count apart			vmm-counts		yes
#	    unmapping does not wait, nor may it			vmm-unmap		yes
#	    three answers to where a range begins		vmm-ranges		yes
#	    an exported handle outlives its release		vmm-exported		yes
#	    a multicast object holds what is bound		vmm-multicast		where it can
#	    it counts where it lies, not where it is mapped	peer-mappings		with two
# 4.4	other processes and interfaces
#	    each open wants a close, and no bytes are ours	ipc			yes
#	    external memory ends by two calls			external		no
# 4.5	arrays
#	    no address, no size, levels that are views		arrays			yes
# 4.6	contexts
#	    what ends with one and what does not		context-destroy		yes
#	    a reset ignores the count, keeps the handle		context-reset		yes
#	    nobody else keeps a primary context			context-release		yes
#	    a green context shares memory			context-green		yes
# 4.7	copies
#	    addresses decide the direction			copy-directions		yes
#	    names do not					copy-names		yes
#	    who waits for whom					copy-waiting		yes
#	    bytes are taken before the copy			copy-staged		yes
#	    a block that makes the host wait			copy-sync-memops	yes
#	    one call, many directions				copy-batch		yes
#	    a pitch moves nothing				copy-shapes		yes
#	    bytes that may not move at all			copy-prefetch		yes
#	    contexts on both ends				copy-peers		yes
#	    devices on both ends				peer-copies		with two
# 4.8	graphs
#	    copies without a call				graph-launches		yes
#	    an address before its memory			graph-memory		yes
#	    unfreed memory stands in the way			graph-unfreed		yes
#	    plain blocks cannot be freed in a capture		graph-plain-free	yes
# 4.9	captures
#	    calls that end one's own				capture-own		yes
#	    calls that a relaxed one survives			capture-relaxed		yes
#	    calls of other threads that end it			capture-others		yes
#	    what is pending stays so meanwhile			capture-pending		yes
#	    the legacy stream beside a blocking one		capture-blocking	yes
# 4.10	modules
#	    variables that nobody allocated			module-variables	yes
#	    the same of libraries				module-libraries	yes
#	    loading waits for the context			module-loading		yes
# 4.11	callbacks
#	    work that stands still until this thread is through	callback		yes
#
# On a GPU: `pitfall CASE` bare and under `custody record`; the output is the same
# on any one machine.
. "${top_srcdir:-.}/tests/e2e/harness.sh"
. "${top_srcdir:-.}/tests/e2e/frees_common.sh"

walk_into() { # CASE [POLICIES]
	same_under "${2:-$policies}" pitfall "$1"
}

# Some traps are mistakes, and findings say so where frees are put off.
walk_into_wrong() { # CASE [POLICIES]
	trouble=yes
	walk_into "$@"
}

# What the trace of every policy says, its lines in one.
traces_say() { # WHAT EXPECTED SQL
	local policy
	for policy in $policies; do
		trace_says "$policy" "$@"
	done
}

trace_says() { # POLICY WHAT EXPECTED SQL
	expect_equal "$2 under $1" "$3" "$(query "$1.db" "$4" | paste -sd' ')"
}

# Blocks but for the client's flag: "kind bytes/footprint ended-by" in order.
blocks="SELECT a.kind || ':' || a.bytes || '/' || a.footprint_bytes || ':'
		|| coalesce(f.name, coalesce(a.release_cause, 'lives'))
	FROM allocation a LEFT JOIN api f ON f.id = a.free_api_id
	WHERE NOT (a.kind = 'pinned' AND a.bytes = 64) ORDER BY a.process_id, a.alloc_ns, a.id"

# Copies: "kind:bytes:from>to" in order.
copies="SELECT t.kind || ':' || t.bytes || ':' || coalesce(t.source_kind, '-') || '>'
		|| coalesce(t.target_kind, '-')
	FROM transfer t WHERE t.result = 0 AND NOT t.is_captured ORDER BY t.start_ns, t.id"

put_off="SELECT count(*) FROM allocation WHERE free_waited_ns IS NOT NULL"

# ---------------------------------------------------------------- 4.1

it_frees_bases_of_linear_memory_and_nothing_else() {
	walk_into_wrong free-takes
	traces_say "blocks" "device:4194304/4194304:cuMemFree_v2 pitch:102400/102400:cuMemFree_v2\
 managed:1048576/1048576:cuMemFree_v2 pool:1048576/1048576:cuMemFree_v2\
 pinned:1048576/1048576:cuMemFreeHost" "$blocks"
	trace_says immediate "failures" "cuMemFree_v2:3 cuMemFreeHost:1" "
		SELECT p.name || ':' || count(*) FROM failure f JOIN api p ON p.id = f.api_id
		GROUP BY p.name ORDER BY count(*) DESC"
	trace_says nowait "double frees" 2 "
		SELECT count(*) FROM finding WHERE kind = 'double free'"
}

it_waits_in_a_free_but_not_of_a_pools_block() {
	walk_into free-waits
	traces_say "a pool's block waits, or is put off" 0 "
		SELECT count(*) FROM allocation WHERE kind = 'pool'
			AND (free_waited_ns IS NOT NULL OR free_duration_ns > 250000000)"
	trace_says immediate "the plain free took its time" 1 "
		SELECT free_duration_ns > 400000000 FROM allocation WHERE kind = 'device'"
	trace_says deferred "that is what it waited" 1 "
		SELECT free_waited_ns > 400000000 FROM allocation WHERE kind = 'device'"
	trace_says nowait "nobody waits" 0 "
		SELECT free_duration_ns > 250000000 FROM allocation WHERE kind = 'device'"
}

it_keeps_what_was_asked_for_apart_from_what_it_takes() {
	walk_into footprint
	traces_say "blocks" "device:1000/1024:lives device:1000/1024:cuMemFree_v2\
 device:3145728/4194304:cuMemFree_v2" "$blocks"
	# Two small blocks of one page, and the large one's.
	traces_say "pages held by them all" "6291456" "
		SELECT max(held_bytes) FROM reading WHERE moment = 'asked'"
}

it_weighs_memory_that_the_driver_keeps() {
	export SIMCUDA_MODULE=6M SIMCUDA_STREAM=1M SIMCUDA_CONTEXT=64M SIMCUDA_OTHERS=10M
	walk_into hidden-memory
	traces_say "blocks" "" "$blocks"
	traces_say "what a module's loading took" 6291456 "
		SELECT growth_bytes FROM reading WHERE weighed = 'code' AND growth_bytes > 0"
	# Under nowait it is unloaded later, when nobody weighs.
	trace_says immediate "what its unloading gave back" -6291456 "
		SELECT growth_bytes FROM reading WHERE weighed = 'code' AND growth_bytes < 0"
	traces_say "streams" 2097152 "SELECT bytes FROM overhead WHERE kind = 'stream'"
	traces_say "in use when the context was there" "$((74 << 20))" "
		SELECT total_bytes - free_bytes FROM reading
		WHERE weighed = 'context' AND moment = 'after'"
}

it_unregisters_at_once_what_is_the_clients() {
	walk_into registered
	traces_say "blocks" "registered:12388/0:cuMemHostUnregister\
 registered:12388/0:cuMemHostUnregister" "$blocks"
	traces_say "put off" 0 "$put_off"
}

it_tells_managed_memory_from_the_devices() {
	walk_into managed
	traces_say "copies" "D2D:4096:managed>device D2H:64:managed>pageable\
 D2H:4:device>pageable" "$copies"
}

it_asks_nothing_that_changes_a_block() {
	walk_into tokens
	traces_say "copies on the device" "D2D:65536 D2D:65536" "
		SELECT kind || ':' || bytes FROM transfer WHERE kind = 'D2D'"
}

it_takes_no_block_for_another_of_the_same_address() {
	walk_into identity
	traces_say "blocks" "device:4194304/4194304:cuMemFree_v2\
 device:4194304/4194304:cuMemFree_v2" "$blocks"
	traces_say "their lives do not cross" 1 "
		SELECT max(alloc_ns) > min(free_requested_ns) FROM allocation WHERE kind = 'device'"
}

# ---------------------------------------------------------------- 4.2

it_frees_plain_blocks_in_stream_order_and_no_others() {
	walk_into pool-free-async
	traces_say "blocks" "device:4194304/4194304:cuMemFreeAsync\
 managed:1048576/1048576:cuMemFree_v2 pinned:1048576/1048576:cuMemFreeHost" "$blocks"
}

it_leaves_reserved_bytes_to_synchronises_and_trims() {
	walk_into pool-threshold
	traces_say "blocks" "pool:4194304/4194304:cuMemFreeAsync\
 pool:4194304/4194304:cuMemFreeAsync" "$blocks"
	traces_say "put off" 0 "$put_off"
	walk_into pool-trim
	traces_say "blocks" "pool:4194304/4194304:cuMemFreeAsync" "$blocks"
}

it_keeps_an_account_of_pools_of_its_own() {
	walk_into_wrong pool-used
	traces_say "blocks" "pool:4194304/4194304:cuMemFree_v2" "$blocks"
}

it_sees_blocks_outlive_pool_and_context() {
	walk_into pool-destroyed
	traces_say "blocks" "pool:65536/65536:cuMemFreeAsync" "$blocks"
	trouble=yes
	walk_into pool-reset
	traces_say "blocks" "pool:65536/65536:cuMemFree_v2 device:65536/65536:reset" "$blocks"
}

# A pass's own synchronise must not give back what the program did not.
it_spares_pools_when_it_gives_blocks_back() {
	export CUSTODY_MAX_PENDING=8
	walk_into pool-beside-frees
	for policy in deferred nowait; do
		[ "$(query "$policy.db" "SELECT count(*) > 4 FROM flush")" = 1 ] ||
			fail "there were no passes under $policy"
	done
}

it_frees_what_it_imported_from_a_pool_before_the_other_process_does() {
	walk_into pool-import
	traces_say "blocks" "ipc:65536/0:cuMemFree_v2 pool:65536/65536:cuMemFreeAsync" "
		SELECT a.kind || ':' || a.bytes || '/' || a.footprint_bytes || ':' || f.name AS line
		FROM allocation a JOIN api f ON f.id = a.free_api_id ORDER BY line"
	traces_say "put off" 0 "$put_off"
	traces_say "exported" "pool" "SELECT kind FROM allocation WHERE is_exported"
	traces_say "the importer's end comes first" 1 "
		SELECT (SELECT max(released_ns) FROM allocation WHERE kind = 'ipc')
			< (SELECT max(free_requested_ns) FROM allocation WHERE kind = 'pool')"
}

# ---------------------------------------------------------------- 4.3

step=2097152

it_counts_handles_and_mappings_apart() {
	walk_into_wrong vmm-counts
	traces_say "blocks" "vmm:$step/$step:cuMemRelease vmm:$step/0:cuMemUnmap\
 vmm:$step/$step:cuMemUnmap vmm:$step/0:cuMemUnmap" "$blocks"
}

it_unmaps_without_waiting_and_at_once() {
	walk_into vmm-unmap
	traces_say "put off" 0 "$put_off"
	traces_say "an unmapping that took long" 0 "
		SELECT count(*) FROM allocation WHERE free_duration_ns > 1000000000"
	traces_say "views, of how many blocks" "3 2" "
		SELECT count(*) || ' ' || count(DISTINCT parent_id) FROM allocation
		WHERE parent_id IS NOT NULL"
	walk_into vmm-ranges
	traces_say "blocks" "vmm:$step/$step:cuMemRelease vmm:$step/0:cuMemUnmap" "$blocks"
}

it_knows_that_an_exported_handle_lives_elsewhere() {
	walk_into vmm-exported
	traces_say "exported" "vmm:$step" "
		SELECT kind || ':' || bytes FROM allocation WHERE is_exported"
	traces_say "released where it was exported" "cuMemRelease:freed" "
		SELECT f.name || ':' || a.release_cause
		FROM allocation a JOIN api f ON f.id = a.free_api_id
		WHERE a.is_exported AND a.released_ns IS NOT NULL"
	traces_say "bytes of what was imported" 0 "
		SELECT sum(footprint_bytes) FROM allocation
		WHERE process_id = (SELECT process_id FROM allocation WHERE kind = 'ipc')
			AND kind <> 'pinned'"
}

it_holds_what_a_multicast_object_holds() {
	walk_into vmm-multicast
	traces_say "what ends the memory" "$step:cuMulticastUnbind" "
		SELECT a.bytes || ':' || f.name FROM allocation a JOIN api f ON f.id = a.free_api_id
		WHERE a.kind = 'vmm'"
}

# ---------------------------------------------------------------- 4.4

it_closes_handles_of_other_processes_at_once() {
	walk_into_wrong ipc
	traces_say "blocks" "device:4194304/4194304:cuMemFree_v2\
 ipc:4194304/0:cuIpcCloseMemHandle pool:1048576/1048576:cuMemFreeAsync" "
		SELECT a.kind || ':' || a.bytes || '/' || a.footprint_bytes || ':' || f.name AS line
		FROM allocation a JOIN api f ON f.id = a.free_api_id ORDER BY line"
	traces_say "put off" 0 "$put_off"
	traces_say "exported" "4194304" "SELECT bytes FROM allocation WHERE is_exported"
}

it_ends_buffers_and_arrays_of_other_interfaces() {
	walk_into_wrong external
	traces_say "what ends them" "external:1048576:cuMemFree_v2\
 array:65536:cuMipmappedArrayDestroy" "
		SELECT a.kind || ':' || a.bytes || ':' || f.name
		FROM allocation a JOIN api f ON f.id = a.free_api_id ORDER BY a.alloc_ns"
	traces_say "put off" 0 "$put_off"
}

# ---------------------------------------------------------------- 4.5

it_takes_the_size_of_an_array_from_its_description() {
	walk_into arrays
	traces_say "blocks" "array:4000000:cuArrayDestroy array:5250000:cuMipmappedArrayDestroy" "
		SELECT a.kind || ':' || a.bytes || ':' || f.name
		FROM allocation a JOIN api f ON f.id = a.free_api_id ORDER BY a.alloc_ns"
}

# ---------------------------------------------------------------- 4.6

it_ends_with_a_context_what_belongs_to_it() {
	walk_into_wrong context-destroy
	traces_say "blocks" "device:context pitch:context managed:context pinned:context\
 pool:cuMemFree_v2 vmm:cuMemRelease" "
		SELECT a.kind || ':' || coalesce(f.name, a.release_cause)
		FROM allocation a LEFT JOIN api f ON f.id = a.free_api_id
		WHERE a.bytes > 64 ORDER BY a.alloc_ns"
}

it_tells_contexts_of_one_handle_apart() {
	walk_into_wrong context-reset
	traces_say "contexts, handles, ends" "2 1 context,reset" "
		SELECT count(*) || ' ' || count(DISTINCT handle) || ' '
			|| (SELECT group_concat(end_cause) FROM
				(SELECT end_cause FROM context ORDER BY end_cause))
		FROM context"
	traces_say "blocks" "device:reset device:cuMemFree_v2" "
		SELECT a.kind || ':' || coalesce(f.name, a.release_cause)
		FROM allocation a LEFT JOIN api f ON f.id = a.free_api_id
		WHERE a.bytes > 64 ORDER BY a.alloc_ns"
}

it_keeps_no_primary_context_alive() {
	walk_into context-release
	traces_say "how the context ended" "context" "SELECT end_cause FROM context"
	traces_say "blocks that are not released" 0 "
		SELECT count(*) FROM allocation WHERE kind = 'device' AND released_ns IS NULL"
}

it_counts_the_memory_of_green_contexts_as_the_primary_ones() {
	walk_into context-green
	traces_say "blocks" "device:$step/$step:cuMemFree_v2" "$blocks"
	traces_say "of the primary context" 1 "
		SELECT is_primary FROM allocation a JOIN context c ON c.id = a.context_id
		WHERE a.kind = 'device'"
}

# ---------------------------------------------------------------- 4.7

it_sees_by_addresses_which_way_a_copy_goes() {
	walk_into copy-directions
	traces_say "copies" "H2D:1001:pinned>device D2D:1002:device>device\
 D2H:1003:device>pageable H2D:1004:pageable>managed D2D:1005:managed>device\
 H2H:1006:pageable>pinned D2H:4:device>pageable" "$copies"
	walk_into copy-names
	traces_say "copies" "H2D:2001:managed>device D2H:4:device>pageable\
 D2D:2002:pinned>device D2H:4:device>pageable" "$copies"
}

it_waits_for_copies_as_the_driver_does() {
	walk_into copy-waiting
	traces_say "copies that took long" "D2H:65536" "
		SELECT kind || ':' || bytes FROM transfer WHERE duration_ns > 250000000"
	walk_into copy-staged
	traces_say "copies" "H2D:65536:pageable>device D2H:4:device>pageable" "$copies"
	walk_into copy-sync-memops
	traces_say "a copy on the device that took long" "D2D:65536" "
		SELECT kind || ':' || bytes FROM transfer WHERE duration_ns > 250000000"
}

it_counts_each_copy_of_a_batch() {
	walk_into copy-batch
	traces_say "copies" "H2D:3001:pinned>device D2D:3002:device>device\
 H2D:3003:pageable>device D2H:4:device>pageable" "$copies"
	traces_say "one that was refused" "UNKNOWN:0:1" "
		SELECT kind || ':' || bytes || ':' || result FROM transfer WHERE result <> 0"
}

it_counts_bytes_and_not_what_lies_between() {
	walk_into copy-shapes
	traces_say "copies" "H2D:1000:pinned>device D2D:768:device>device\
 D2H:4:device>pageable" "$copies"
}

it_tells_prefetches_and_copies_between_contexts_for_what_they_are() {
	walk_into copy-prefetch
	traces_say "copies" "PREFETCH:1048576:->managed" "$copies"
	walk_into copy-peers
	traces_say "copies" "MEMSET:64:->device D2D:4001:device>device D2D:4002:device>device\
 D2H:4:device>pageable" "$copies"
	traces_say "contexts of the blocks" 2 "
		SELECT count(DISTINCT context_id) FROM allocation WHERE kind = 'device'"
}

it_knows_both_devices_of_copies_between_them() {
	export SIMCUDA_DEVICES=2
	walk_into_wrong peer-copies
	traces_say "copies between devices" "P2P:6001:1>0 P2P:6002:0>1" "
		SELECT t.kind || ':' || t.bytes || ':' || s.ordinal || '>' || g.ordinal
		FROM transfer t JOIN device s ON s.id = t.source_device_id
		JOIN device g ON g.id = t.target_device_id
		WHERE t.kind = 'P2P' ORDER BY t.start_ns"
	walk_into peer-pools
	traces_say "blocks, of which device" "pool:65536:1" "
		SELECT a.kind || ':' || a.bytes || ':' || d.ordinal
		FROM allocation a JOIN device d ON d.id = a.device_id WHERE a.kind = 'pool'"
	walk_into peer-mappings
	traces_say "blocks, of which device" "vmm:$step:1" "
		SELECT a.kind || ':' || a.bytes || ':' || d.ordinal
		FROM allocation a JOIN device d ON d.id = a.device_id
		WHERE a.kind = 'vmm' AND a.parent_id IS NULL"
	export SIMCUDA_PEER=0
	walk_into peer-copies
	traces_say "copies between devices without a link" 2 "
		SELECT count(*) FROM transfer WHERE kind = 'P2P' AND result = 0"
}

# ---------------------------------------------------------------- 4.8

it_counts_the_copies_of_every_launch() {
	walk_into graph-launches
	traces_say "copies by launches" "D2D:5001 D2D:5001 D2D:5002" "
		SELECT t.kind || ':' || t.bytes FROM transfer t JOIN api p ON p.id = t.api_id
		WHERE p.name LIKE 'cuGraphLaunch%' ORDER BY t.start_ns"
}

it_follows_memory_that_graphs_allocate() {
	walk_into_wrong graph-memory
	traces_say "blocks" "graph:4194304:cuMemFree_v2" "
		SELECT a.kind || ':' || a.bytes || ':' || f.name
		FROM allocation a JOIN api f ON f.id = a.free_api_id ORDER BY a.alloc_ns"
	traces_say "what graphs had reserved at most" 33554432 "
		SELECT max(graphs_reserved) FROM reading"
	walk_into_wrong graph-unfreed
	traces_say "put off" 0 "$put_off"
}

it_makes_no_free_of_a_capture_a_node() {
	walk_into graph-plain-free
	traces_say "blocks" "device:65536/65536:cuMemFree_v2" "$blocks"
}

# ---------------------------------------------------------------- 4.9

# A free in a capture that does not reach the driver does no harm: under nowait the
# program is better off, and that is the one difference.
nowait_spares_captures() { # CASE
	walk_into_wrong "$1" "immediate deferred"
	run_under nowait pitfall "$1"
	sed 's/^cuMemFree: 900$/cuMemFree: 0/
		s/^capture after cuMemFree: 901$/capture after cuMemFree: 0/' bare.out |
		diff - nowait.out || fail "$1 under nowait is otherwise"
}

it_adds_nothing_to_what_ends_a_capture() {
	nowait_spares_captures capture-own
	nowait_spares_captures capture-others
	walk_into_wrong capture-relaxed
}

it_releases_nothing_while_a_stream_is_captured() {
	walk_into capture-pending
	traces_say "memsets of the launch" "MEMSET:1280:20" "
		SELECT t.kind || ':' || t.bytes || ':' || t.copies FROM transfer t
		JOIN api p ON p.id = t.api_id WHERE p.name LIKE 'cuGraphLaunch%'"
	for policy in deferred nowait; do
		trace_says "$policy" "passes in the capture" 0 "
			WITH capture AS (
				SELECT min(CASE WHEN p.name LIKE 'cuStreamBeginCapture%'
						THEN o.start_ns + o.duration_ns END) AS begins,
					max(CASE WHEN p.name LIKE 'cuStreamEndCapture%'
						THEN o.start_ns END) AS ends
				FROM operation o JOIN api p ON p.id = o.api_id
			)
			SELECT count(*) FROM flush, capture
			WHERE start_ns + duration_ns > begins AND start_ns < ends"
	done
	trouble=yes
	walk_into capture-blocking
}

# ---------------------------------------------------------------- 4.10

# Under nowait a module is unloaded later, and so is what lies in it.
it_knows_variables_from_the_look_up_to_the_unloading() {
	trouble=yes
	walk_into module-variables "immediate deferred"
	for policy in immediate deferred; do
		trace_says "$policy" "blocks" "module:256:cuModuleUnload" "
			SELECT a.kind || ':' || a.bytes || ':' || f.name
			FROM allocation a JOIN api f ON f.id = a.free_api_id"
	done
	trouble=no
	walk_into module-libraries
	traces_say "blocks" "module:256:cuLibraryUnload" "
		SELECT a.kind || ':' || a.bytes || ':' || f.name
		FROM allocation a JOIN api f ON f.id = a.free_api_id"
}

it_waits_in_the_loading_of_a_module() {
	walk_into module-loading
	traces_say "the loading took its time" 1 "
		SELECT max(duration_ns) > 300000000 FROM operation o JOIN api p ON p.id = o.api_id
		WHERE p.name = 'cuModuleLoadData'"
}

# ---------------------------------------------------------------- 4.11

it_waits_for_nothing_that_waits_for_the_program() {
	export CUSTODY_MAX_PENDING=10
	walk_into callback
	traces_say "blocks that are not released" 0 "
		SELECT count(*) FROM allocation WHERE kind IN ('device', 'pool')
			AND released_ns IS NULL"
}

run_behaviours "${1:-}"
