package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A difference is one that has a reason.
type difference struct {
	reason  string
	leftOut bool // the question is none that vipkit can be asked
	whole   bool // too rare for a short run
}

// readDifferences reads the reasons by "area/id". A line that starts with a space continues
// the one before.
func readDifferences(path string) (map[string]difference, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	head := regexp.MustCompile(`^([a-z0-9-]+/[a-z0-9-]+)( \[left out\])?( \[whole run\])?: (.*)$`)
	out := map[string]difference{}
	last := ""
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		m := head.FindStringSubmatch(line)
		d, known := out[last]
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " ") && known:
			d.reason += " " + strings.TrimSpace(line)
			out[last] = d
		case m == nil:
			return nil, fmt.Errorf("%s:%d: is no difference", path, n)
		default:
			last = m[1]
			if _, again := out[last]; again {
				return nil, fmt.Errorf("%s:%d: %s is there twice", path, n, last)
			}
			out[last] = difference{reason: m[4], leftOut: m[2] != "", whole: m[3] != ""}
		}
	}
	return out, lines.Err()
}
