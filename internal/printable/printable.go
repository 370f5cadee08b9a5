// Package printable makes text of objects fit for a log, an error and a terminal: whoever may
// write an object could otherwise forge lines or drive a terminal.
package printable

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text returns s with what cannot be printed (control characters, line ends, directions of
// writing, bytes that are no UTF-8) escaped as in a Go string. Text that can be printed stays as it is.
func Text(s string) string {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' {
			return escaped(s)
		}
	}
	return s
}

func escaped(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if strconv.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(s[:n])
		} else {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}
