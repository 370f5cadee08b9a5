package ipvs

import (
	"fmt"
	"hash/fnv"
	"io"

	"github.com/vipkit/vipkit/proxy/plan"
)

// marks gives packet marks to pools. A pool keeps its mark until the virtual server of the mark is gone.
type marks struct {
	base    uint32 // the upper bits of all marks
	mask    uint32 // the others
	without uint32 // one of these, which no mark has

	of     map[markOwner]uint32
	owners map[uint32]markOwner // the zero owner has those of an earlier process

	// sites says which mark an earlier process had for a site of a pool of its own.
	sites map[ServerKey]uint32
}

// A markOwner is what a mark stands for: one pool of one port.
type markOwner struct {
	key  plan.Key
	pool plan.Pool
}

func newMarks(o Options) *marks {
	return &marks{
		base: o.MarkBase, mask: markRange, without: o.MasqueradeMark,
		of: make(map[markOwner]uint32), owners: make(map[uint32]markOwner), sites: make(map[ServerKey]uint32),
	}
}

// get returns the mark of a pool that a site has. Which one a pool gets depends on its name, so that it is most likely the same in another
// process; if an earlier one had another, it is kept.
func (m *marks) get(owner markOwner, at ServerKey) (uint32, error) {
	if mark, ok := m.of[owner]; ok {
		return mark, nil
	}
	if mark := m.sites[at]; mark != 0 && m.owners[mark] == (markOwner{}) {
		m.take(owner, mark)
		return mark, nil
	}
	h := fnv.New32a()
	k := owner.key
	for _, s := range []string{k.Namespace, k.Name, k.Port, string(k.Protocol), string(k.Family), owner.pool.String()} {
		_, _ = io.WriteString(h, s+"\x00") // never fails
	}
	for n := range m.mask + 1 {
		mark := m.base | (h.Sum32()+n)&m.mask&^m.without
		if _, taken := m.owners[mark]; !taken {
			m.take(owner, mark)
			return mark, nil
		}
	}
	return 0, fmt.Errorf("ipvs: no mark is left for %s", owner.key)
}

func (m *marks) take(owner markOwner, mark uint32) { m.of[owner], m.owners[mark] = mark, owner }

// free gives a mark back.
func (m *marks) free(mark uint32) {
	delete(m.of, m.owners[mark])
	delete(m.owners, mark)
}

// isOurs reports whether a mark is in the range that we own.
func (m *marks) isOurs(mark uint32) bool { return mark != 0 && mark&^m.mask == m.base }

// recall keeps the marks of this process of which there is a virtual server, and takes note of those of an earlier one. Marks that nothing has any
// more are free.
func (m *marks) recall(sites map[ServerKey]uint32, servers []VirtualServer) {
	m.sites = sites
	old := m.of
	m.of, m.owners = make(map[markOwner]uint32), make(map[uint32]markOwner)
	for _, v := range servers {
		if m.isOurs(v.Mark) {
			m.owners[v.Mark] = markOwner{}
		}
	}
	for owner, mark := range old {
		if _, exists := m.owners[mark]; exists {
			m.take(owner, mark)
		}
	}
}
