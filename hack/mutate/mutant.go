package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"hash/fnv"
	"slices"
	"strings"
)

// A form says how a mutated piece of source is woven beside the original.
type form uint8

const (
	condition form = iota // a boolean expression
	value                 // another expression
	statement             // the alternative is empty for a dropped one
)

// A site is a piece of source and what replaces it.
type site struct {
	file       *file
	start, end int // bytes
	form       form
	alt        string
	typ        string // of a value that is constant; otherwise the compiler infers it
}

// A mutant is one fault: one site, or the two of a swap.
type mutant struct {
	id    int
	dir   string // of the package
	fn    string // the function that holds it
	op    string // negate, drop, swap, off-by-one
	sites []site
	pos   token.Position
}

// key names a mutant independently of line numbers, for the list of survivors. Equal changes of equal
// lines in one function share a key.
func (m *mutant) key() string {
	from, to := m.lines()
	return fmt.Sprintf("%s: %s: %s: %s => %s", m.sites[0].file.rel, m.fn, m.op, from, to)
}

// rank orders mutants as if drawn by lot: it depends on the seed and on the mutant alone, so that an
// edit elsewhere does not change who is drawn.
func (m *mutant) rank(seed int64) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, m.key()) //nolint:errcheck // a hash takes everything
	// FNV differs little between texts that differ at the end: one more round mixes that.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

// lines returns the first line that changes, before and after.
func (m *mutant) lines() (from, to string) {
	text := m.sites[0].file.text
	first := m.sites[0]
	start := bytes.LastIndexByte(text[:first.start], '\n') + 1
	last := m.sites[len(m.sites)-1]
	end := len(text)
	if i := bytes.IndexByte(text[last.end:], '\n'); i >= 0 {
		end = last.end + i
	}
	var changed strings.Builder
	at := start
	for _, s := range m.sites {
		changed.Write(text[at:s.start])
		changed.WriteString(s.alt)
		at = s.end
	}
	changed.Write(text[at:end])
	return shortLine(string(text[start:end])), shortLine(changed.String())
}

// shortLine returns the first line of a piece of source, without space around it.
func shortLine(s string) string {
	first, rest, more := strings.Cut(strings.TrimSpace(s), "\n")
	if more && strings.TrimSpace(rest) != "" {
		first = strings.TrimSpace(first) + " …"
	}
	if first == "" {
		return "(nothing)"
	}
	return strings.Join(strings.Fields(first), " ")
}

// mutants returns every fault that the operators can make in a package.
func (s *source) mutants() []*mutant {
	f := finder{source: s, consts: constants(s.types), tail: map[ast.Stmt]bool{}}
	for _, file := range s.files {
		f.file = file
		for _, d := range file.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				f.fn = name(fn)
				f.tails(fn.Type, fn.Body)
				f.walk(fn.Body)
			}
		}
	}
	return f.out
}

// name is that of a function, with the type of its receiver.
func name(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

// constants returns the constants of each named type of a package and of those that it imports.
func constants(pkg *types.Package) map[types.Type][]*types.Const {
	out := map[types.Type][]*types.Const{}
	for _, p := range append([]*types.Package{pkg}, pkg.Imports()...) {
		for _, n := range p.Scope().Names() {
			c, ok := p.Scope().Lookup(n).(*types.Const)
			if !ok || p != pkg && !c.Exported() {
				continue
			}
			if t, ok := c.Type().(*types.Named); ok && t.Obj().Pkg() == p {
				out[t] = append(out[t], c)
			}
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b *types.Const) int { return int(a.Pos() - b.Pos()) })
	}
	return out
}
