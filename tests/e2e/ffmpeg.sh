#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A program that nobody here wrote: Debian's ffmpeg moves frames through the
# driver, and the MD5 of the video proves every byte.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

frames=10 width=320 height=240
source="testsrc=duration=1:size=${width}x$height:rate=$frames"

bare_md5() {
	ffmpeg -hide_banner -nostdin -loglevel error -f lavfi -i "$source" -vf format=nv12 -f md5 -
}

through_the_driver() { # COMMAND...
	"$@" ffmpeg -hide_banner -nostdin -loglevel error -init_hw_device cuda=cu \
		-filter_hw_device cu -f lavfi -i "$source" \
		-vf format=nv12,hwupload_cuda,hwdownload,format=nv12 -f md5 -
}

has_ffmpeg() {
	plain_build_only
	command -v ffmpeg >/dev/null || skip "there is no ffmpeg"
	ffmpeg -hide_banner -filters 2>/dev/null | grep -q hwupload_cuda ||
		skip "this ffmpeg was built without CUDA"
}

it_records_ffmpeg_and_changes_no_byte_of_its_video() {
	has_ffmpeg
	bare_md5 >bare
	through_the_driver env >unwatched
	through_the_driver "$custody" record -q -o t.db -- >watched
	diff bare unwatched || fail "the simulated driver changes the video"
	diff bare watched || fail "the recording changes the video"
	# NV12: a plane of brightness and one, half as high, of colour.
	expect_equal "bytes to the device" "$((frames * width * height * 3 / 2))" "$(query t.db "
		SELECT sum(bytes) FROM transfer WHERE kind = 'H2D' AND result = 0")"
	expect_equal "bytes from the device" "$((frames * width * height * 3 / 2))" "$(query t.db "
		SELECT sum(bytes) FROM transfer WHERE kind = 'D2H' AND result = 0")"
	expect_equal "functions of the copies" cuMemcpy2DAsync_v2 "$(query t.db "
		SELECT DISTINCT name FROM transfer t JOIN api ON api.id = t.api_id")"
	expect_equal "copies that belong to no block" 0 "$(query t.db "
		SELECT count(*) FROM transfer
		WHERE coalesce(source_allocation_id, target_allocation_id) IS NULL")"
	expect_equal "blocks that were not given back" 0 "$(query t.db "
		SELECT count(*) FROM allocation WHERE released_ns IS NULL")"
	[ "$(query t.db "SELECT count(*) FROM allocation")" -gt 0 ] || fail "no block was recorded"
}

it_records_ffmpeg_under_a_bare_preload() {
	has_ffmpeg
	bare_md5 >bare
	through_the_driver env LD_PRELOAD="$preload" CUSTODY_OUTPUT=t.db >watched 2>err
	diff bare watched || fail "the recording changes the video"
	expect_empty "standard error" err
	wait_for_trace t.db >/dev/null
	expect_equal "bytes to the device" "$((frames * width * height * 3 / 2))" "$(query t.db "
		SELECT sum(bytes) FROM transfer WHERE kind = 'H2D' AND result = 0")"
	expect_no_session
}

run_behaviours "${1:-}"
