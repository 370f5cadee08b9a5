package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// accepted reads the list of mutants that may go unnoticed: a line "# reason" and below it the keys that it is for.
// Empty lines separate.
func accepted(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	out := map[string]string{}
	reason := ""
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "":
			reason = ""
		case strings.HasPrefix(line, "#"):
			reason = strings.TrimSpace(reason + " " + strings.TrimSpace(line[1:]))
		case reason == "":
			return nil, fmt.Errorf("%s: no reason for %s", path, line)
		default:
			out[line] = reason
		}
	}
	return out, lines.Err()
}
