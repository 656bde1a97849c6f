dnl SPDX-License-Identifier: Apache-2.0

dnl CUSTODY_ARG_SANITIZE
dnl --enable-sanitize=address,undefined or =thread builds everything with
dnl that sanitizer: libraries, preload, program and test clients.  A preload
dnl built with AddressSanitizer cannot be loaded into a program without it,
dnl so tests learn from $SANITIZE which clients they may run.
AC_DEFUN([CUSTODY_ARG_SANITIZE], [
	AC_ARG_ENABLE([sanitize],
		[AS_HELP_STRING([--enable-sanitize=LIST],
			[build with sanitizers: address,undefined or thread])],
		[], [enable_sanitize=no])
	AS_CASE([$enable_sanitize],
		[no], [SANITIZE=],
		[yes], [SANITIZE=address,undefined],
		[address|undefined|thread|address,undefined|undefined,address],
			[SANITIZE=$enable_sanitize],
		[AC_MSG_ERROR([--enable-sanitize takes address,undefined or thread, not $enable_sanitize])])
	SANITIZE_CFLAGS=
	AS_IF([test -n "$SANITIZE"], [
		SANITIZE_CFLAGS="-fsanitize=$SANITIZE -fno-sanitize-recover=all -fno-omit-frame-pointer"
		custody_saved_cflags=$CFLAGS
		CFLAGS="$CFLAGS $SANITIZE_CFLAGS"
		AC_MSG_CHECKING([whether $CC links with -fsanitize=$SANITIZE])
		AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
			[AC_MSG_RESULT([no])
			 AC_MSG_ERROR([$CC cannot link with -fsanitize=$SANITIZE])])
		CFLAGS=$custody_saved_cflags
	])
	AC_SUBST([SANITIZE])
	AC_SUBST([SANITIZE_CFLAGS])
	AM_CONDITIONAL([SANITIZE], [test -n "$SANITIZE"])
])
