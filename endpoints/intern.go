package endpoints

import (
	"strings"
	"sync"
)

// maxNames bounds an interner. It is above the number of nodes and zones of the
// largest clusters (15,000 nodes), so that only names long gone are forgotten.
const maxNames = 1 << 16

// An interner keeps one copy of strings that repeat in many slices: names of
// nodes, zones, ports and namespaces. It is safe for concurrent use.
type interner struct {
	mu    sync.Mutex
	names map[string]string
	lists map[string][]string // lists of one name, which hints mostly are
}

func newInterner() *interner {
	return &interner{names: make(map[string]string), lists: make(map[string][]string)}
}

// name returns the kept copy of s.
func (in *interner) name(s string) string {
	if s == "" {
		return ""
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.nameLocked(s)
}

func (in *interner) nameLocked(s string) string {
	if kept, ok := in.names[s]; ok {
		return kept
	}
	// Starting over costs some copies; who holds the old ones is not affected.
	if len(in.names) >= maxNames {
		clear(in.names)
		clear(in.lists)
	}
	kept := strings.Clone(s) // s may be part of a larger buffer
	in.names[kept] = kept
	return kept
}

// list returns a list of s alone, which the caller must not change.
func (in *interner) list(s string) []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if kept, ok := in.lists[s]; ok {
		return kept
	}
	l := []string{in.nameLocked(s)}
	in.lists[l[0]] = l
	return l
}
