// Ids lists the cases of the specification that no test names.
//
// A test covers a case by having its id in a test name, as in t.Run("A16 …"), or
// in a scenario file. Ids prints those of ids.txt that are nowhere, one a line,
// and exits with 1 if there are more than -most.
//
//	go run ./hack/ids [-most 10] [-in hack/ids/ids.txt] [DIR]
package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	list := flag.String("in", "hack/ids/ids.txt", "file with the ranges of ids")
	most := flag.Int("most", 10, "how many may be missing")
	flag.Parse()
	dir := "."
	if flag.NArg() > 0 {
		dir = flag.Arg(0)
	}
	missing, err := run(*list, dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ids:", err)
		os.Exit(2)
	}
	for _, id := range missing {
		fmt.Println(id)
	}
	if len(missing) > *most {
		fmt.Fprintf(os.Stderr, "ids: %d cases without a test, at most %d may be\n", len(missing), *most)
		os.Exit(1)
	}
}

func run(list, dir string) ([]string, error) {
	wanted, err := readRanges(list)
	if err != nil {
		return nil, err
	}
	seen, err := namedIn(dir)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, id := range wanted {
		if !seen[id] {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// readRanges returns every id of the ranges in the file, in its order.
func readRanges(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read

	var ids []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line, kind := strings.CutPrefix(sc.Text(), fault)
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue // a comment, or nothing
		}
		first, last := rangePattern.FindStringSubmatch(fields[0]), rangePattern.FindStringSubmatch(fields[1])
		if first == nil || last == nil || first[1] != last[1] {
			continue
		}
		prefix := first[1]
		if kind {
			prefix = fault + prefix
		}
		ids = append(ids, between(prefix, first, last)...)
	}
	return ids, nil
}

// between returns the ids between two matches of rangePattern, or, of one number, those
// between their letters.
func between(prefix string, first, last []string) []string {
	var ids []string
	if a, z := first[3], last[3]; a != "" && z != "" {
		for letter := a[0]; letter <= z[0]; letter++ {
			ids = append(ids, id(prefix, number(first[2]), string(letter)))
		}
		return ids
	}
	for n := number(first[2]); n <= number(last[2]); n++ {
		ids = append(ids, id(prefix, n, ""))
	}
	return ids
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // digits, by the patterns
	return n
}

func id(prefix string, n int, letter string) string {
	if prefix == "#" {
		return fmt.Sprintf("#%d", n)
	}
	return fmt.Sprintf("%s%02d%s", prefix, n, letter)
}

// fault stands before the id of a fault that this project itself had, as in
// "fault F08a", since the specification has a section F too.
const fault = "fault "

// rangePattern is an end of a range: prefix, number, letter.
var rangePattern = regexp.MustCompile(`^([A-K#])(\d{1,2})([a-z]?)$`)

// idPattern finds ids, and ranges of them such as D01–D04 or D01-D04.
var idPattern = regexp.MustCompile(`(?:\b(fault )?([A-K])|(#))(\d{1,2})([a-z])?(?:[–-](?:[A-K]|#)?(\d{1,2}))?\b`)

// namedIn returns the ids in the string literals of test files and in scenario
// files below dir.
func namedIn(dir string) (map[string]bool, error) {
	seen := map[string]bool{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && p != dir && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir // copies of other modules, and no tests of ours
		}
		if err != nil || d.IsDir() {
			return err
		}
		switch {
		case strings.HasSuffix(p, "_test.go"):
			return inFile(p, func(src []byte) { literals(src, func(s string) { note(seen, s) }) })
		case strings.HasSuffix(p, ".txtar"):
			return inFile(p, func(src []byte) { note(seen, string(src)) })
		}
		return nil
	})
	return seen, err
}

func inFile(name string, do func([]byte)) error {
	src, err := os.ReadFile(name)
	if err == nil {
		do(src)
	}
	return err
}

// literals calls do with every string literal of a Go file. A case that only a
// comment speaks of is not tested.
func literals(src []byte, do func(string)) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(src)), src, nil, 0)
	for {
		_, tok, lit := s.Scan()
		if tok == token.EOF {
			return
		}
		if tok == token.STRING {
			do(lit)
		}
	}
}

// note records the ids in text.
func note(seen map[string]bool, text string) {
	for _, m := range idPattern.FindAllStringSubmatch(text, -1) {
		kind, prefix, letter := m[1], m[2]+m[3], m[5]
		if letter != "" && kind == "" {
			continue // only faults have letters
		}
		first := number(m[4])
		last := first
		if m[6] != "" {
			last = number(m[6])
		}
		for n := first; n <= last; n++ {
			seen[id(kind+prefix, n, letter)] = true
		}
	}
}
