package shadow

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
)

// Unexplained is the id of a difference that nobody knows.
const Unexplained = "unexplained"

// LogVariable names the environment variable with the path of the file to which
// records are appended, one JSON object a line. Without it nothing is recorded.
const LogVariable = "VIPKIT_UPSTREAM_LOG"

// A Record says that an input gave an answer, or that N inputs gave the same.
type Record struct {
	Area   string // what was asked, such as "choice"
	Random bool   // whether our random objects asked, and not upstream's tests
	ID     string `json:",omitempty"` // empty: both agree
	N      int    // how many inputs
	Test   string `json:",omitempty"` // the test that asked, if the answers differ
	Detail string `json:",omitempty"` // of one input, if the answers differ
}

// exampleBound is how many Details a process records for one id of an area; the rest
// is only counted.
const exampleBound = 40

// A ledger collects the records of a process.
type ledger struct {
	mu       sync.Mutex
	file     *os.File
	random   bool
	counted  map[Record]int
	examples map[Record]int
}

// records is of the whole process, as upstream's functions, which have no place for a
// ledger, record in it.
var records = &ledger{counted: map[Record]int{}, examples: map[Record]int{}}

// Agree records that both answered the same.
func Agree(area string) { records.add(Record{Area: area}) }

// Differ records a difference. The detail is of the form that [fmt.Sprintf] takes.
func Differ(area, id, format string, args ...any) {
	records.add(Record{Area: area, ID: id, Detail: fmt.Sprintf(format, args...)})
}

// Random marks what is recorded until end is called as asked by random objects. It
// counts in memory meanwhile, as those are many.
func Random() (end func()) {
	records.mu.Lock()
	defer records.mu.Unlock()
	records.random = true
	return records.flush
}

func (l *ledger) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r, n := range l.counted {
		r.N = n
		l.write(r)
	}
	clear(l.counted)
	l.random = false
}

func (l *ledger) add(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Random = l.random
	key := Record{Area: r.Area, Random: r.Random, ID: r.ID}
	if r.ID != "" && l.examples[key] < exampleBound {
		l.examples[key]++
		r.N, r.Test = 1, testName()
		l.write(r)
		return
	}
	if l.random {
		l.counted[key]++
		return
	}
	key.N = 1
	l.write(key)
}

// write panics if it cannot, since a test whose results are lost must not pass.
func (l *ledger) write(r Record) {
	path := os.Getenv(LogVariable)
	if path == "" {
		return
	}
	if l.file == nil {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			panic(err)
		}
		l.file = f
	}
	line, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// testName returns the test function among the callers, with its package.
func testName() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		name := f.Function[strings.LastIndex(f.Function, "/")+1:]
		if i := strings.Index(name, ".Test"); i >= 0 {
			return name[:i] + "." + strings.SplitN(name[i+1:], ".", 2)[0]
		}
		if !more {
			return ""
		}
	}
}
