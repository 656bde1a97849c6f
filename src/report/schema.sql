-- SPDX-License-Identifier: Apache-2.0
-- The trace.  Times are nanoseconds of CLOCK_MONOTONIC of the recording host
-- (meta 'wall_offset_ns' added gives time since 1970); sizes are bytes; ids are
-- unique in a file.  Columns of features that were not on are NULL.

PRAGMA application_id = 0x43757374;	-- "Cust"
PRAGMA user_version = 1;

CREATE TABLE meta (			-- what holds for the whole file
	key TEXT PRIMARY KEY,		-- schema_version, custody_version, host, wall_offset_ns, options (those
					-- in force, and where frees are put off the limits of what is pending),
					-- clock (tsc or monotonic), boot (whose CLOCK_MONOTONIC it is),
					-- session (directory, while incomplete), complete (0/1), merged_by
					-- (version, of a file that `custody merge` made; see source)
	value
) WITHOUT ROWID;

CREATE TABLE process (			-- one traced program image that used CUDA
	id INTEGER PRIMARY KEY,
	pid INTEGER NOT NULL,
	exec_serial INTEGER NOT NULL,	-- images of this pid that came before
	parent_id INTEGER REFERENCES process,	-- the process that forked this one, if it was traced
	parent_pid INTEGER,
	executable TEXT,
	arguments TEXT,			-- separated by one space, as typed where that is unambiguous
	start_ns INTEGER NOT NULL,	-- first recorded call
	end_ns INTEGER,			-- NULL: not known to have ended
	exit_status INTEGER,		-- NULL: a signal, or not a child of `custody record`
	exit_signal INTEGER,
	driver_version INTEGER,		-- as cuDriverGetVersion gives it
	policy TEXT,			-- --frees
	note TEXT,			-- what of it is not recorded, and why: "not preloaded...", all of it;
					-- "driver started past the preload", some; else NULL
	lost_records INTEGER NOT NULL DEFAULT 0,
	source_id INTEGER REFERENCES source	-- the trace it came from; NULL: this file was recorded
);

CREATE TABLE source (			-- one trace that went into a merged file; else empty
	id INTEGER PRIMARY KEY,
	path TEXT NOT NULL,		-- as it was named
	host TEXT,
	boot TEXT,			-- which start of that machine, where the trace tells it
	moved_ns INTEGER NOT NULL,	-- what was added to its times, so that wall time lines up
	is_complete INTEGER NOT NULL
);

CREATE TABLE source_meta (		-- what stood in its meta
	source_id INTEGER NOT NULL REFERENCES source,
	key TEXT NOT NULL,
	value,
	PRIMARY KEY (source_id, key)
) WITHOUT ROWID;

CREATE TABLE device (
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	ordinal INTEGER NOT NULL,	-- in that process
	uuid TEXT,
	name TEXT,
	total_bytes INTEGER
);

-- Processes number their devices for themselves; those with one uuid on one machine
-- are one, and go by the first of their ids.
CREATE VIEW physical_device AS
SELECT
	d.id AS device_id,
	coalesce((SELECT min(e.id) FROM device e
		JOIN process q ON q.id = e.process_id LEFT JOIN source t ON t.id = q.source_id
		WHERE e.uuid = d.uuid AND coalesce(t.boot, t.host) IS coalesce(s.boot, s.host)),
		d.id) AS physical_id,
	s.host AS host			-- NULL: that of the file
FROM device d
LEFT JOIN process p ON p.id = d.process_id LEFT JOIN source s ON s.id = p.source_id;

CREATE TABLE context (
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	device_id INTEGER REFERENCES device,
	number INTEGER,			-- in its process, as records name it
	handle INTEGER NOT NULL,	-- reused by the driver; id is not
	is_primary INTEGER NOT NULL,
	created_ns INTEGER,		-- first seen
	destroyed_ns INTEGER,
	end_cause TEXT,			-- context, reset, exit
	is_green INTEGER NOT NULL DEFAULT 0	-- it has no memory of its own
);

CREATE TABLE stream (
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	context_id INTEGER REFERENCES context,
	thread_id INTEGER REFERENCES thread,	-- of a per-thread default stream
	handle INTEGER NOT NULL,	-- 1 legacy default stream, 2 per-thread default stream
	created_ns INTEGER,
	destroyed_ns INTEGER
);

CREATE TABLE event (
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	context_id INTEGER REFERENCES context,
	handle INTEGER NOT NULL,
	created_ns INTEGER,
	destroyed_ns INTEGER
);

CREATE TABLE thread (
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	number INTEGER,			-- in its process, from 1
	tid INTEGER NOT NULL,
	name TEXT,
	start_ns INTEGER		-- first recorded call
);

CREATE TABLE module (			-- files mapped into the program, to name its callers
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	path TEXT NOT NULL,
	build_id TEXT,
	base INTEGER NOT NULL,		-- lowest mapped address
	size INTEGER NOT NULL,
	seen_ns INTEGER			-- when it was first seen mapped
);

CREATE TABLE api (			-- one driver function
	id INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE	-- the exact symbol
);

CREATE TABLE uncovered (		-- driver functions handed out that custody does not know
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	name TEXT NOT NULL,
	version INTEGER,		-- asked for, cuGetProcAddress
	flags INTEGER,
	at_ns INTEGER
);

CREATE TABLE allocation (		-- one block, from request to release
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	number INTEGER,			-- in its process, as records name it
	kind TEXT NOT NULL,		-- device, pitch, managed, pinned, registered, pool, vmm, array, ipc,
					-- external, graph, module
	address INTEGER NOT NULL,	-- or handle (array, and what cuMemCreate made)
	bytes INTEGER NOT NULL,		-- requested
	footprint_bytes INTEGER,	-- what it takes from the device, by the driver's page rules; 0 where
					-- the bytes are another's (ipc, registered, external, views)
	device_id INTEGER REFERENCES device,
	context_id INTEGER REFERENCES context,
	stream_id INTEGER REFERENCES stream,
	thread_id INTEGER REFERENCES thread,
	api_id INTEGER REFERENCES api,
	alloc_ns INTEGER NOT NULL,	-- start of the call; the block lives from alloc_ns + alloc_duration_ns
	alloc_duration_ns INTEGER NOT NULL,
	free_api_id INTEGER REFERENCES api,
	free_thread_id INTEGER REFERENCES thread,
	free_requested_ns INTEGER,	-- start of the program's free
	free_duration_ns INTEGER,	-- how long that call took
	free_waited_ns INTEGER,		-- part of it that waited for the device; NULL unless the release was put
					-- off: the block is live until then, and pending from there to
					-- released_ns
	ready_ns INTEGER,		-- when its device work was first seen done, of a deferred free
	free_saved_ns INTEGER,		-- of a free that did not wait: what it would have waited for, at most; where
					-- an earlier one of the thread would have waited too, it counts there
	released_ns INTEGER,		-- NULL while live or pending
	release_cause TEXT,		-- freed, count, bytes, oom, idle, explicit, scope, context, reset, exit,
					-- failed; NULL while live or pending
	caller INTEGER,			-- the program's return address
	free_caller INTEGER,
	stack_id INTEGER REFERENCES stack,
	free_stack_id INTEGER REFERENCES stack,
	parent_id INTEGER REFERENCES allocation,	-- the block that owns the bytes: count them there
	is_exported INTEGER NOT NULL DEFAULT 0	-- others may hold it: what was released here is then not
					-- free on the device before they let go of it
);

-- A program copies from few places in its code and very often, so what is the
-- same for all copies of one place is stored once; the view `transfer` joins the
-- two and is what readers use.
CREATE TABLE transfer_site (
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	kind TEXT NOT NULL,
	api_id INTEGER REFERENCES api,
	is_async INTEGER NOT NULL,
	source_kind TEXT,
	target_kind TEXT,
	source_device_id INTEGER REFERENCES device,
	target_device_id INTEGER REFERENCES device,
	context_id INTEGER REFERENCES context,
	caller INTEGER,
	stack_id INTEGER REFERENCES stack,
	result INTEGER NOT NULL,
	is_captured INTEGER NOT NULL,
	copies INTEGER NOT NULL DEFAULT 1	-- a row stands for so many
);

CREATE TABLE transfer_row (
	id INTEGER PRIMARY KEY,
	site_id INTEGER NOT NULL REFERENCES transfer_site,
	thread_id INTEGER REFERENCES thread,
	stream_id INTEGER REFERENCES stream,
	bytes INTEGER NOT NULL,
	start_ns INTEGER NOT NULL,
	duration_ns INTEGER NOT NULL,
	source_address INTEGER,
	target_address INTEGER,
	source_allocation_id INTEGER REFERENCES allocation,
	target_allocation_id INTEGER REFERENCES allocation
);

CREATE TABLE transfer_gpu (		-- when the device did it, where that was recorded
	transfer_id INTEGER PRIMARY KEY REFERENCES transfer_row,
	start_ns INTEGER NOT NULL,
	duration_ns INTEGER NOT NULL
);

CREATE VIEW transfer AS			-- one copy, memset or prefetch, or those of a graph's launch
SELECT
	r.id AS id,
	s.process_id AS process_id,
	s.kind AS kind,			-- H2D, D2H, D2D, P2P, H2H, MEMSET, PREFETCH, UNKNOWN
	r.bytes AS bytes,
	s.api_id AS api_id,
	r.start_ns AS start_ns,
	r.duration_ns AS duration_ns,	-- of the call on the host; 0 in all but the first row of a call
	s.is_async AS is_async,
	r.source_address AS source_address,	-- of a memset: NULL
	r.target_address AS target_address,
	s.source_kind AS source_kind,	-- pageable, pinned, registered, device, managed, array, unknown
	s.target_kind AS target_kind,
	r.source_allocation_id AS source_allocation_id,
	r.target_allocation_id AS target_allocation_id,
	s.source_device_id AS source_device_id,
	s.target_device_id AS target_device_id,
	s.context_id AS context_id,
	r.stream_id AS stream_id,
	r.thread_id AS thread_id,
	s.caller AS caller,
	s.stack_id AS stack_id,
	s.result AS result,		-- CUresult; bytes of a failed one did not move
	s.is_captured AS is_captured,	-- issued into a stream capture, or nobody knows whether it
					-- was done: bytes did not move, as far as is known
	s.copies AS copies,		-- 1; of the launch of a graph, which has a row for each
					-- kind, source_kind and target_kind: those of the whole
					-- graph, 0 in the bodies of its conditional nodes, whose
					-- bytes are those of one run, or (UNKNOWN) not known
	-- Looked up where they are asked for, so that all else costs as without them.
	(SELECT start_ns FROM transfer_gpu WHERE transfer_id = r.id)
		AS gpu_start_ns,	-- on the device; NULL: not known
	(SELECT duration_ns FROM transfer_gpu WHERE transfer_id = r.id)
		AS gpu_duration_ns	-- of all that was done for it; what CUPTI tells of several
					-- transfers as of one is divided among them by their bytes
FROM transfer_row r JOIN transfer_site s ON s.id = r.site_id;

CREATE TRIGGER transfer_insert INSTEAD OF INSERT ON transfer BEGIN
	INSERT INTO transfer_site(process_id, kind, api_id, is_async, source_kind, target_kind,
		source_device_id, target_device_id, context_id, caller, stack_id, result, is_captured,
		copies)
	VALUES (new.process_id, new.kind, new.api_id, new.is_async, new.source_kind,
		new.target_kind, new.source_device_id, new.target_device_id, new.context_id,
		new.caller, new.stack_id, coalesce(new.result, 0), coalesce(new.is_captured, 0),
		coalesce(new.copies, 1));
	INSERT INTO transfer_row(id, site_id, thread_id, stream_id, bytes, start_ns, duration_ns,
		source_address, target_address, source_allocation_id, target_allocation_id)
	VALUES (new.id, (SELECT max(id) FROM transfer_site), new.thread_id, new.stream_id,
		new.bytes, new.start_ns, new.duration_ns, new.source_address, new.target_address,
		new.source_allocation_id, new.target_allocation_id);
END;

-- What devices did beside that, as CUPTI tells it: kernels, migrations of managed
-- memory, and copies whose call is not known.  The view `gpu_work` has all of it.
CREATE TABLE gpu_work_site (
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	kind TEXT NOT NULL,		-- copy, memset, kernel, migration
	direction TEXT,			-- as transfer.kind; of kernels NULL
	source_kind TEXT,
	target_kind TEXT,
	number INTEGER,			-- of a kernel, in its process; 0: one of too many
	name TEXT			-- of a kernel, as its code has it
);

CREATE TABLE gpu_work_row (
	id INTEGER PRIMARY KEY,
	site_id INTEGER NOT NULL REFERENCES gpu_work_site,
	start_ns INTEGER NOT NULL,
	duration_ns INTEGER NOT NULL,
	bytes INTEGER,			-- NULL of kernels
	count INTEGER NOT NULL DEFAULT 1	-- migrations that the row stands for
);

CREATE VIEW gpu_work AS			-- one piece of work of a device
SELECT
	s.process_id AS process_id,
	s.kind AS kind,			-- copy, memset, kernel, migration
	s.direction AS direction,
	r.start_ns AS start_ns,
	r.duration_ns AS duration_ns,	-- of several migrations their sum
	r.bytes AS bytes,
	r.count AS count,
	s.source_kind AS source_kind,
	s.target_kind AS target_kind,
	s.name AS name,
	NULL AS transfer_id
FROM gpu_work_row r JOIN gpu_work_site s ON s.id = r.site_id
UNION ALL
SELECT
	s.process_id, CASE s.kind WHEN 'MEMSET' THEN 'memset' ELSE 'copy' END, s.kind, g.start_ns,
	g.duration_ns, r.bytes, max(s.copies, 1), s.source_kind, s.target_kind, NULL, r.id
FROM transfer_gpu g JOIN transfer_row r ON r.id = g.transfer_id
JOIN transfer_site s ON s.id = r.site_id;

CREATE TABLE gpu_times (		-- a process that was to be recorded with GPU times
	process_id INTEGER NOT NULL REFERENCES process,
	start_ns INTEGER,		-- NULL: there are none
	end_ns INTEGER,			-- NULL: they last to the end
	why TEXT,			-- there are none, or they ended
	lost INTEGER NOT NULL DEFAULT 0	-- pieces of work that CUPTI had no room for
);

CREATE TABLE operation (		-- stream, event, synchronise, context, graph calls
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	api_id INTEGER NOT NULL REFERENCES api,
	start_ns INTEGER NOT NULL,
	duration_ns INTEGER NOT NULL,
	thread_id INTEGER REFERENCES thread,
	context_id INTEGER REFERENCES context,
	stream_id INTEGER REFERENCES stream,
	object INTEGER,			-- handle the call is about
	result INTEGER NOT NULL DEFAULT 0,
	caller INTEGER,			-- of the unloading of a module, which waits for the device as frees do; of
					-- all else NULL
	detail INTEGER,			-- a second handle or address, or what was set or advised: an enumerator
	bytes INTEGER			-- that the call names: of a range, to keep at a trim, of a limit; -1 without end
);
CREATE INDEX operation_unload ON operation(process_id, api_id, caller) WHERE caller IS NOT NULL;

CREATE TABLE flush (			-- one pass over a deferred-free queue
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	context_id INTEGER REFERENCES context,
	thread_id INTEGER REFERENCES thread,
	queue TEXT,			-- memory, objects
	cause TEXT,			-- as allocation.release_cause: what started the pass
	count INTEGER,			-- blocks released
	bytes INTEGER,			-- of those
	failed INTEGER,			-- releases that the driver refused
	start_ns INTEGER,
	duration_ns INTEGER,
	waited_ns INTEGER		-- part of it that waited for the device
);

CREATE TABLE finding (			-- what the program should not have done
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	kind TEXT NOT NULL,		-- use after free, double free
	api_id INTEGER REFERENCES api,
	allocation_id INTEGER REFERENCES allocation,	-- the block, whose free was before
	address INTEGER,		-- that the call named
	at_ns INTEGER NOT NULL,
	thread_id INTEGER REFERENCES thread,
	context_id INTEGER REFERENCES context,
	caller INTEGER
);

CREATE TABLE failure (			-- one driver call that returned an error
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	origin TEXT NOT NULL,		-- program, or custody: a release, or an attempt it repeated;
					-- limit, fail-nth: an allocation that was refused
	api_id INTEGER REFERENCES api,
	result INTEGER NOT NULL,	-- CUresult
	bytes INTEGER,			-- asked for
	object INTEGER,			-- address or handle it was about
	at_ns INTEGER NOT NULL,
	thread_id INTEGER REFERENCES thread,
	context_id INTEGER REFERENCES context,
	caller INTEGER
);

CREATE TABLE api_call (			-- totals; calls that are only counted appear only here
	process_id INTEGER NOT NULL REFERENCES process,
	api_id INTEGER NOT NULL REFERENCES api,
	thread_id INTEGER NOT NULL REFERENCES thread,
	calls INTEGER NOT NULL,
	errors INTEGER NOT NULL,
	total_ns INTEGER,		-- NULL: counted, not timed
	max_ns INTEGER,
	PRIMARY KEY (api_id, thread_id)
) WITHOUT ROWID;

CREATE TABLE gap (			-- records that were lost
	process_id INTEGER NOT NULL REFERENCES process,
	thread_id INTEGER REFERENCES thread,
	count INTEGER NOT NULL,
	from_ns INTEGER,
	to_ns INTEGER
);

CREATE TABLE reading (			-- what the driver said of a device's memory, at one moment
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,	-- that asked, or in which custody did
	device_id INTEGER NOT NULL REFERENCES device,
	context_id INTEGER REFERENCES context,
	thread_id INTEGER REFERENCES thread,
	at_ns INTEGER NOT NULL,
	moment TEXT NOT NULL,		-- asked (by the program), before, after (a call that makes the driver
					-- keep memory), quiet (of custody's own accord), oom, exit
	weighed TEXT,			-- of before and after, what that is for: context, code (modules,
					-- functions), stream, graph, setting; else NULL
	free_bytes INTEGER NOT NULL,
	total_bytes INTEGER NOT NULL,
	pools_reserved INTEGER,		-- by the process' pools, cached or used; NULL: not asked
	graphs_reserved INTEGER,	-- by its graphs; NULL: not asked
	-- What is in use, total_bytes - free_bytes, is the sum of the next and of what nothing
	-- explains; managed memory may be anywhere and is in none of them.  NULL in a trace whose
	-- recording did not come to its end.
	held_bytes INTEGER,		-- by live and pending blocks, in the pages they take: reading_kind has
					-- the kinds; without those of pools and graphs
	pool_bytes INTEGER,		-- pools_reserved, or what is known of it: blocks and pools_cached
	graph_bytes INTEGER,		-- graphs_reserved, or what is known of it
	context_bytes INTEGER,		-- by the process' contexts; NULL: they are part of foreign_bytes
	code_bytes INTEGER,		-- by modules and functions
	driver_bytes INTEGER,		-- by streams, executable graphs, limits
	recorded_bytes INTEGER,		-- by other processes of this trace
	foreign_bytes INTEGER,		-- by other processes, measured before the first context
	growth_bytes INTEGER,		-- of after, what the call made the driver keep; else NULL
	pools_cached INTEGER		-- asked instead of pools_reserved once blocks have outlived a pool:
					-- what pools keep beside the blocks that live in them
);

CREATE TABLE reading_kind (		-- blocks of the process on the device at a reading
	reading_id INTEGER NOT NULL REFERENCES reading,
	kind TEXT NOT NULL,		-- as allocation.kind
	live_bytes INTEGER NOT NULL,
	pending_bytes INTEGER NOT NULL,
	held_bytes INTEGER NOT NULL,	-- in pages: blocks of up to 1 MiB share them; 0 for pool and graph
	PRIMARY KEY (reading_id, kind)
) WITHOUT ROWID;

CREATE TABLE overhead (			-- what the driver keeps for a context, beside the program's blocks
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	device_id INTEGER NOT NULL REFERENCES device,
	context_id INTEGER REFERENCES context,
	kind TEXT NOT NULL,		-- context, code, stream, graph, setting: as reading.weighed
	bytes INTEGER,			-- in the end, or when the context died; NULL: nothing told it from
					-- what other processes have
	count INTEGER NOT NULL,		-- calls that changed it
	created_ns INTEGER NOT NULL,
	ended_ns INTEGER
);

CREATE TABLE overhead_step (		-- of overhead, what grew by calls whose readings have no rows: there
					-- are many, and these are their sums
	process_id INTEGER NOT NULL REFERENCES process,
	device_id INTEGER NOT NULL REFERENCES device,
	context_id INTEGER NOT NULL REFERENCES context,
	kind TEXT NOT NULL,
	at_ns INTEGER NOT NULL,		-- of the last of them
	bytes INTEGER NOT NULL,
	calls INTEGER NOT NULL,
	PRIMARY KEY (context_id, kind, at_ns)
) WITHOUT ROWID;

CREATE TABLE device_sample (		-- what NVML said was free, seldom; the newest before a context
	id INTEGER PRIMARY KEY,
	at_ns INTEGER NOT NULL,
	uuid TEXT NOT NULL,
	free_bytes INTEGER NOT NULL
);

CREATE TABLE oom (			-- the first time that a process ran out of device memory: its black box
	id INTEGER PRIMARY KEY,
	process_id INTEGER NOT NULL REFERENCES process,
	failure_id INTEGER NOT NULL REFERENCES failure,
	device_id INTEGER REFERENCES device,
	reading_id INTEGER REFERENCES reading,	-- of the moment; NULL: the driver could not be asked
	at_ns INTEGER NOT NULL,		-- of the reading, else of the call
	requested_bytes INTEGER,
	free_bytes INTEGER,		-- as the driver said
	total_bytes INTEGER,
	live_bytes INTEGER,		-- of the process on the device
	pending_bytes INTEGER,		-- freed and not released yet
	pools_reserved INTEGER,		-- by its pools, cached or used
	largest_free_bytes INTEGER	-- largest block to be had; NULL: unknown, for the driver does not
					-- tell it, and to try would take what the program needs
);

CREATE TABLE oom_holder (		-- who held most of what was live then
	oom_id INTEGER NOT NULL REFERENCES oom,
	kind TEXT NOT NULL,
	caller INTEGER,
	count INTEGER NOT NULL,		-- of blocks
	bytes INTEGER NOT NULL
);

CREATE TABLE sample (			-- bytes in use, pre-aggregated: highest use inside each slice of time
	at_ns INTEGER NOT NULL,
	process_id INTEGER NOT NULL,
	device_id INTEGER,		-- NULL: host memory
	kind TEXT NOT NULL,
	live_bytes INTEGER NOT NULL,	-- not freed by the program
	pending_bytes INTEGER NOT NULL	-- freed by the program, not released yet: on top of what is live
);

CREATE TABLE peak (			-- the moment of highest use: per process and device, and of all
	process_id INTEGER,		-- NULL: all processes
	device_id INTEGER,		-- NULL: all devices; without a process: a physical_id that
					-- several processes have
	at_ns INTEGER NOT NULL,
	bytes INTEGER NOT NULL,		-- live device bytes then, the same whatever is done about frees
	held_peak_bytes INTEGER NOT NULL DEFAULT 0,	-- most that was live or pending, at whatever moment
	pending_peak_bytes INTEGER NOT NULL DEFAULT 0	-- most that was pending, at whatever moment
);

CREATE TABLE peak_block (		-- the blocks that were live at a peak; see the view live_at_peak
	process_id INTEGER,		-- of the peak
	device_id INTEGER,		-- of the peak
	allocation_id INTEGER NOT NULL REFERENCES allocation
);

CREATE TABLE allocation_total (		-- sums over blocks, so that a report opens at once
	process_id INTEGER NOT NULL,
	device_id INTEGER,
	kind TEXT NOT NULL,
	caller INTEGER,
	is_view INTEGER NOT NULL,	-- parent_id IS NOT NULL: never part of a sum
	size_class INTEGER NOT NULL,	-- floor(log2(bytes)), -1 for 0
	count INTEGER NOT NULL,
	bytes INTEGER NOT NULL,
	footprint_bytes INTEGER NOT NULL,
	alloc_ns INTEGER NOT NULL,	-- host time of the allocation calls
	frees INTEGER NOT NULL,		-- by the program
	free_ns INTEGER NOT NULL,	-- host time of those
	free_max_ns INTEGER NOT NULL,
	peak_count INTEGER NOT NULL,	-- live at the peak of all processes and devices
	peak_bytes INTEGER NOT NULL,
	peak_footprint_bytes INTEGER NOT NULL,
	exit_count INTEGER NOT NULL,	-- never freed
	exit_bytes INTEGER NOT NULL,
	ended_count INTEGER NOT NULL,	-- never freed, but died with their context
	ended_bytes INTEGER NOT NULL
);

CREATE TABLE free_total (		-- sums over the program's frees, so that a report opens at once
	process_id INTEGER NOT NULL,
	api_id INTEGER,
	caller INTEGER,
	count INTEGER NOT NULL,
	host_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	forwarded_ns INTEGER NOT NULL,	-- of host_ns, that of frees which the driver did there and then
	deferred INTEGER NOT NULL,	-- those whose release was put off
	deferred_bytes INTEGER NOT NULL,
	waited_ns INTEGER NOT NULL,
	waited_max_ns INTEGER NOT NULL,
	saved_ns INTEGER NOT NULL
);

CREATE TABLE pending_total (		-- one row: how long deferred frees were pending, all processes
	released INTEGER NOT NULL,	-- of these are the times; what was pending at an end is not among them
	median_ns INTEGER,		-- exact to a thousandth, as is the next
	p99_ns INTEGER,
	longest_ns INTEGER,
	exit_count INTEGER NOT NULL,	-- still pending when their process ended
	exit_bytes INTEGER NOT NULL
);

CREATE TABLE transfer_total (		-- sums, so that a report opens at once
	process_id INTEGER NOT NULL,
	kind TEXT NOT NULL,
	api_id INTEGER,
	source_kind TEXT,
	target_kind TEXT,
	source_device_id INTEGER,
	target_device_id INTEGER,
	size_class INTEGER NOT NULL,	-- floor(log2(bytes / copies)), -1 for 0
	is_async INTEGER NOT NULL,
	caller INTEGER,
	count INTEGER NOT NULL,		-- of copies
	bytes INTEGER NOT NULL,		-- that moved: neither failed nor captured
	host_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	failed INTEGER NOT NULL
);

CREATE TABLE gpu_total (		-- sums over gpu_work, so that a report opens at once
	process_id INTEGER NOT NULL,
	kind TEXT NOT NULL,
	direction TEXT,
	source_kind TEXT,
	target_kind TEXT,
	name TEXT,
	count INTEGER NOT NULL,
	bytes INTEGER,
	gpu_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	joined INTEGER NOT NULL		-- rows of transfer that are in it
);

CREATE TABLE stack (id INTEGER PRIMARY KEY, process_id INTEGER REFERENCES process);

CREATE TABLE frame (
	stack_id INTEGER NOT NULL REFERENCES stack,
	depth INTEGER NOT NULL,
	module_id INTEGER REFERENCES module,
	offset INTEGER,
	symbol TEXT, file TEXT, line INTEGER, language TEXT,
	PRIMARY KEY (stack_id, depth)
) WITHOUT ROWID;

CREATE TABLE ingest (			-- how far each chunk was read; emptied when complete
	process_id INTEGER NOT NULL,
	segment INTEGER NOT NULL,
	chunk INTEGER NOT NULL,
	sequence INTEGER NOT NULL,
	consumed INTEGER NOT NULL,
	PRIMARY KEY (process_id, segment, chunk)
) WITHOUT ROWID;
