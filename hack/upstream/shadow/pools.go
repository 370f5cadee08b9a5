package shadow

import "fmt"

// A Pool is an allocator of numbers. An operation that is nil is not compared.
type Pool struct {
	Claim   func(n int) error
	Pick    func() (int, error)
	Release func(n int) error
	Has     func(n int) bool
	Free    func() int
}

// Pools are two of the same range, which hold the same.
type Pools struct {
	Area, Name       string
	Upstream, Vipkit Pool
	IsStatic         func(n int) bool // in the band that picks leave for claims
}

// Compare records whether two texts are the same.
func (p Pools) Compare(what, upstream, vipkit string) {
	if upstream == vipkit {
		Agree(p.Area)
		return
	}
	Differ(p.Area, Unexplained, "%s %s: upstream %s, vipkit %s", p.Name, what, upstream, vipkit)
}

// Claim lets both claim n.
func (p Pools) Claim(n int) {
	theirs, ours := p.Upstream.Claim(n), p.Vipkit.Claim(n)
	p.Compare(fmt.Sprint("claim ", n), done(theirs), done(ours))
}

func done(err error) string {
	if err != nil {
		return "refused"
	}
	return "done"
}

// SamePick lets both pick, who must pick the same.
func (p Pools) SamePick() {
	theirs, err := p.Upstream.Pick()
	ours, oursErr := p.Vipkit.Pick()
	p.Compare("pick", fmt.Sprint(theirs, done(err)), fmt.Sprint(ours, done(oursErr)))
}

// Step lets both do the same at random, mostly with n, and compares everything.
func (p Pools) Step(g *Generator, n int) {
	switch g.Intn(4) {
	case 0:
		p.Claim(n)
	case 3:
		p.Compare(fmt.Sprint("release ", n), done(p.Upstream.Release(n)), done(p.Vipkit.Release(n)))
	default:
		p.pick()
	}
	p.Compare(fmt.Sprint("has ", n), fmt.Sprint(p.Upstream.Has(n), p.Upstream.Free()), fmt.Sprint(p.Vipkit.Has(n), p.Vipkit.Free()))
}

// pick compares the band that both pick from; then vipkit takes upstream's number.
func (p Pools) pick() {
	theirs, err := p.Upstream.Pick()
	ours, oursErr := p.Vipkit.Pick()
	p.Compare("pick", done(err), done(oursErr))
	if err != nil || oursErr != nil {
		return
	}
	p.Compare("band of a pick", fmt.Sprint(p.IsStatic(theirs)), fmt.Sprint(p.IsStatic(ours)))
	if err := p.Vipkit.Release(ours); err != nil {
		Differ(p.Area, Unexplained, "%s release %d: %v", p.Name, ours, err)
	}
	if err := p.Vipkit.Claim(theirs); err != nil {
		Differ(p.Area, Unexplained, "%s claim %d: %v", p.Name, theirs, err)
	}
}
