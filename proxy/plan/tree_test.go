package plan

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

type treeKey byte

func (k treeKey) Compare(o treeKey) int { return cmp.Compare(k, o) }

// FuzzTree replays changes on a tree and on a map, in series of one edit each, and
// looks whether every version taken in between stays what it was.
func FuzzTree(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0, 3, 1, 2, 2, 0, 0, 9, 1, 1})
	var up, down []byte
	for i := range byte(60) {
		up = append(up, 0, i)
		down = append(down, 1, i, 2, 0)
	}
	f.Add(append(up, down...))
	mixed, draw := make([]byte, 2000), rand.New(rand.NewPCG(1, 2))
	for i := range mixed {
		mixed[i] = byte(draw.UintN(256))
	}
	f.Add(mixed) // rotations of every kind
	f.Fuzz(func(t *testing.T, ops []byte) {
		var (
			tr       tree[treeKey, int]
			model    = map[treeKey]int{}
			token    = &edit{}
			versions []tree[treeKey, int]
			models   []map[treeKey]int
		)
		for i := 0; i+1 < len(ops); i += 2 {
			switch k := treeKey(ops[i+1]); ops[i] % 3 {
			case 0:
				tr.set(token, k, i)
				model[k] = i
			case 1:
				tr.remove(token, k)
				delete(model, k)
			case 2:
				versions, models = append(versions, tr), append(models, maps.Clone(model))
				token = &edit{}
			}
		}
		versions, models = append(versions, tr), append(models, model)
		for i, v := range versions {
			checkTree(t, v, models[i])
		}
	})
}

func checkTree(t *testing.T, tr tree[treeKey, int], model map[treeKey]int) {
	t.Helper()
	want := slices.Sorted(maps.Keys(model))
	var got []treeKey
	for k, v := range tr.all() {
		got = append(got, k)
		if model[k] != v || tr.at(k) != v {
			t.Fatalf("value of %d is %d, at says %d, want %d", k, v, tr.at(k), model[k])
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("keys are %v, want %v", got, want)
	}
	checkHeights(t, tr.root)
}

func checkHeights(t *testing.T, n *node[treeKey, int]) int8 {
	t.Helper()
	if n == nil {
		return 0
	}
	l, r := checkHeights(t, n.left), checkHeights(t, n.right)
	if d := l - r; d < -1 || d > 1 || n.height != 1+max(l, r) {
		t.Fatalf("node %d has height %d over %d and %d", n.key, n.height, l, r)
	}
	return n.height
}

func TestTreeStopsEarly(t *testing.T) {
	var tr tree[treeKey, int]
	for i := range treeKey(10) {
		tr.set(&edit{}, i, 0)
	}
	for k := range tr.all() {
		if k == 4 {
			break
		}
		if k > 4 {
			t.Fatalf("went on to %d", k)
		}
	}
}
