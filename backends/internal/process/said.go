package process

import (
	"strings"
	"unicode"
)

// How much of a complaint is kept and told. One mistake can make thousands of lines.
const (
	maxSaid  = 64 << 10
	maxLines = 3
	maxTold  = 1000 // bytes
)

// FirstLines returns the first lines of what the program said, as one line of printable text.
func (e *Error) FirstLines() string {
	lines := strings.SplitN(strings.TrimSpace(string(e.Said)), "\n", maxLines+1)
	return Printable(strings.Join(lines[:min(maxLines, len(lines))], "; "))
}

// Printable returns a bounded text that can stand in a log, whatever s is.
func Printable(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxTold)], "?")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
