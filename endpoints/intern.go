package endpoints

import (
	"strings"
	"sync"
)

// maxNames bounds each map of an interner. It is above the number of nodes and zones of the
// largest clusters (15,000 nodes), so that only names long gone are forgotten.
const maxNames = 1 << 16

// An interner keeps one copy of strings that repeat in many slices: names of
// nodes, zones, ports and namespaces. It is safe for concurrent use.
type interner struct {
	mu    sync.Mutex
	names map[string]string
	pairs map[pair]*Hints
}

// A pair is what hints mostly are: at most one zone and one node, "" if none.
type pair struct{ zone, node string }

func newInterner() *interner {
	return &interner{names: make(map[string]string), pairs: make(map[pair]*Hints)}
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
		clear(in.pairs)
	}
	kept := strings.Clone(s) // s may be part of a larger buffer
	in.names[kept] = kept
	return kept
}

// hints returns Hints of these names, nil if there are none. It takes over the
// lists. Hints of at most one zone and one node are kept once.
func (in *interner) hints(zones, nodes []string) *Hints {
	if len(zones) == 0 && len(nodes) == 0 {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	var p pair
	ok := single(zones, &p.zone) && single(nodes, &p.node)
	if kept := in.pairs[p]; ok && kept != nil {
		return kept
	}
	if len(in.pairs) >= maxNames {
		clear(in.pairs)
	}
	for _, names := range [][]string{zones, nodes} {
		for i, s := range names {
			names[i] = in.nameLocked(s)
		}
	}
	h := &Hints{ForZones: zones, ForNodes: nodes}
	if ok {
		single(zones, &p.zone) // the kept copies
		single(nodes, &p.node)
		in.pairs[p] = h
	}
	return h
}

// single sets name to the only one of names. It returns false if there are several, or
// one that is "", which no list has in the place of none.
func single(names []string, name *string) bool {
	if len(names) == 1 {
		*name = names[0]
	}
	return len(names) == 0 || len(names) == 1 && *name != ""
}
