dnl SPDX-License-Identifier: Apache-2.0

dnl CUSTODY_CUDA_HEADERS(MINIMUM)
dnl Looks for cuda.h with CUDA_VERSION >= MINIMUM and sets CUDA_CPPFLAGS,
dnl CUDA_INCLUDE_DIR and CUDA_HEADER_VERSION.  Only headers are needed: no
dnl CUDA library is ever linked.
dnl
dnl --with-cuda=DIR is the only place looked at when given; else CUDA_HOME,
dnl CUDA_PATH and the directories in CUDA_SEARCH_PATH.  That variable exists
dnl so that a test can hide an installed toolkit.
AC_DEFUN([CUSTODY_CUDA_HEADERS], [
	AC_ARG_WITH([cuda],
		[AS_HELP_STRING([--with-cuda=DIR], [CUDA toolkit or header directory (version 13.0 or newer)])],
		[], [with_cuda=])
	AC_ARG_VAR([CUDA_SEARCH_PATH],
		[colon-separated directories searched for a CUDA toolkit when --with-cuda is not given])
	AS_CASE([$with_cuda],
		[yes|no], [AC_MSG_ERROR([--with-cuda takes a directory; CUDA headers cannot be left out])],
		[''], [
			custody_cuda_dirs="${CUDA_SEARCH_PATH-$CUDA_HOME:$CUDA_PATH:/usr/local/cuda:/opt/cuda:/usr}"
			custody_cuda_dirs=`echo "$custody_cuda_dirs" | tr : ' '`],
		[custody_cuda_dirs=$with_cuda])
	CUDA_INCLUDE_DIR=
	for custody_dir in $custody_cuda_dirs; do
		for custody_include in "$custody_dir/include" "$custody_dir"; do
			AS_IF([test -z "$CUDA_INCLUDE_DIR" && test -f "$custody_include/cuda.h"],
				[CUSTODY_CUDA_TRY([$custody_include], [$1])])
		done
	done
	AS_IF([test -z "$CUDA_INCLUDE_DIR"], [
		AC_MSG_ERROR([CUDA headers of version 13.0 or newer were not found; 'scripts/fetch-cuda-headers DIR' downloads them, then configure with --with-cuda=DIR])])
	CUDA_CPPFLAGS=
	AS_IF([test "$CUDA_INCLUDE_DIR" != /usr/include], [CUDA_CPPFLAGS="-isystem $CUDA_INCLUDE_DIR"])
	AC_SUBST([CUDA_CPPFLAGS])
	AC_SUBST([CUDA_INCLUDE_DIR])
])

dnl CUSTODY_CUDA_TRY(INCLUDE_DIR, MINIMUM)
dnl Takes the directory when its cuda.h is new enough, else says so.
AC_DEFUN([CUSTODY_CUDA_TRY], [
	CUDA_HEADER_VERSION=`$SED -n 's/^#define CUDA_VERSION  *//p' "$1/cuda.h" | head -n 1`
	AC_MSG_CHECKING([CUDA headers in $1])
	AS_IF([test "${CUDA_HEADER_VERSION:-0}" -ge $2],
		[AC_MSG_RESULT([$CUDA_HEADER_VERSION]); CUDA_INCLUDE_DIR=`cd "$1" && pwd`],
		[AC_MSG_RESULT([passed over: version ${CUDA_HEADER_VERSION:-unknown} is older than $2])])
])
