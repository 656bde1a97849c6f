dnl SPDX-License-Identifier: Apache-2.0

dnl CUSTODY_WARN_CFLAGS(VARIABLE, FLAGS)
dnl Tries each flag alone and puts those the compiler knows into VARIABLE.
dnl -Werror stands beside the flag under test because clang only warns
dnl about a warning option it does not know.
AC_DEFUN([CUSTODY_WARN_CFLAGS], [
	$1=
	custody_saved_cflags=$CFLAGS
	for custody_flag in $2; do
		AC_MSG_CHECKING([whether $CC knows $custody_flag])
		CFLAGS="$custody_saved_cflags -Werror $custody_flag"
		AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
			[AC_MSG_RESULT([yes]); $1="$$1 $custody_flag"],
			[AC_MSG_RESULT([no])])
	done
	CFLAGS=$custody_saved_cflags
	AC_SUBST([$1])
])

dnl CUSTODY_ARG_WERROR
dnl --enable-werror puts -Werror behind the warnings.  Off for those who
dnl only build: a newer compiler must not break an older release.
AC_DEFUN([CUSTODY_ARG_WERROR], [
	AC_ARG_ENABLE([werror],
		[AS_HELP_STRING([--enable-werror], [turn compiler warnings into errors])],
		[], [enable_werror=no])
	AS_IF([test "$enable_werror" = yes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
])
