# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What scripts/demo and scripts/test share: getting what is needed onto a
# machine that may hold nothing but Debian or Ubuntu.  Sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=$(basename "$0")

say()
{
	echo "$program: $*" >&2
}

fail()
{
	say "$*"
	exit 1
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		fail "'$*' needs root or sudo"
	fi
}

is_installed()
{
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# missing_packages PACKAGE...: prints those that are not installed.
missing_packages()
{
	local package
	for package in "$@"; do
		is_installed "$package" || echo "$package"
	done
}

# Both scripts set $build, where the log of the package manager goes, first.
apt_updated=
apt_get()
{
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@" \
		</dev/null >>"$build/apt.log" 2>&1
}

# Installs what is missing; the package lists are refreshed once, and only
# when something is missing at all.  Returns 1 where a package is not to be
# had, so that the caller may do without.
try_install()
{
	local missing
	missing=$(missing_packages "$@" | tr '\n' ' ')
	[ -n "$missing" ] || return 0
	command -v apt-get >/dev/null || return 1
	say "installing $missing"
	if [ -z "$apt_updated" ]; then
		apt_get update || say "the package lists could not be refreshed"
		apt_updated=yes
	fi
	# shellcheck disable=SC2086 # a list of words on purpose
	apt_get install --no-install-recommends -y $missing && return
	tail -n 3 "$build/apt.log" >&2
	return 1
}

need_install()
{
	try_install "$@" ||
		fail "these packages are needed and could not be installed:" \
			"$(missing_packages "$@" | tr '\n' ' ')"
}

# What a build needs.  clang, the linters and ffmpeg are asked for where used.
build_packages="gcc libc6-dev make autoconf automake libtool pkg-config
	libsqlite3-dev libjansson-dev check"

install_build_packages()
{
	# shellcheck disable=SC2086 # a list of words on purpose
	need_install $build_packages
}

# Version number in DIRECTORY/cuda.h, 0 without one.
cuda_version_in()
{
	local version
	version=$(sed -n 's/^#define CUDA_VERSION  *//p' "$1/cuda.h" 2>/dev/null | head -n 1)
	echo "${version:-0}"
}

# find_cuda BUILD-DIRECTORY: sets cuda_dir to a place with CUDA headers of
# 13.0 or newer: an installed toolkit, else NVIDIA's header packages, which
# are fetched into the build directory.  HIDE_TOOLKIT=1 skips the search.
find_cuda()
{
	local dir version
	if [ -z "${HIDE_TOOLKIT:-}" ]; then
		for dir in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /opt/cuda /usr; do
			[ -n "$dir" ] || continue
			version=$(cuda_version_in "$dir/include")
			if [ "$version" -ge 13000 ]; then
				cuda_dir=$dir
				return
			fi
			[ "$version" -eq 0 ] ||
				say "$dir is passed over: CUDA $version is older than 13.0"
		done
	fi
	cuda_dir=$1/cuda
	[ -f "$cuda_dir/include/cuda.h" ] && return
	python3 -m pip --version >/dev/null 2>&1 || need_install python3 python3-pip
	"$root/scripts/fetch-cuda-headers" "$cuda_dir" >&2 || exit 1
}

bootstrap()
{
	[ -x "$root/configure" ] && [ "$root/configure" -nt "$root/configure.ac" ] && return
	say "bootstrapping"
	"$root/scripts/bootstrap" >"$build/bootstrap.log" 2>&1 && return
	tail -n 20 "$build/bootstrap.log" >&2
	fail "scripts/bootstrap failed"
}

cpus=$(nproc 2>/dev/null || echo 2)
