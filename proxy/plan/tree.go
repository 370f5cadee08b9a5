package plan

import "iter"

// A tree is a persistent ordered map: an AVL tree whose nodes are copied on the
// way to a change. Versions share every node that did not change.
type tree[K ordered[K], V any] struct {
	root *node[K, V]
}

type ordered[K any] interface{ Compare(K) int }

type node[K ordered[K], V any] struct {
	key         K
	val         V
	left, right *node[K, V]
	height      int8
	edit        *edit
}

// An edit is the token of one series of changes. A node made under it was not
// published yet, so later changes of the series write into it instead of copying.
type edit struct{ _ byte } // not empty: two tokens must not share one address

func (t tree[K, V]) get(k K) (v V, ok bool) {
	n := t.root
	for n != nil {
		c := k.Compare(n.key)
		switch {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.val, true
		}
	}
	return v, false
}

// at returns the value of k, the zero value if there is none.
func (t tree[K, V]) at(k K) V {
	v, _ := t.get(k)
	return v
}

// set gives k a value. Only trees that were taken from t before are unchanged.
func (t *tree[K, V]) set(e *edit, k K, v V) { t.root = t.root.set(e, k, v) }

// remove forgets k.
func (t *tree[K, V]) remove(e *edit, k K) {
	if _, ok := t.get(k); ok {
		t.root = t.root.remove(e, k)
	}
}

// all yields keys and values in order.
func (t tree[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.root.walk(yield) }
}

func (n *node[K, V]) walk(yield func(K, V) bool) bool {
	return n == nil || n.left.walk(yield) && yield(n.key, n.val) && n.right.walk(yield)
}

// own returns a node with the content of n that may be written under e.
func (n *node[K, V]) own(e *edit) *node[K, V] {
	if n.edit == e {
		return n
	}
	c := *n
	c.edit = e
	return &c
}

func (n *node[K, V]) set(e *edit, k K, v V) *node[K, V] {
	if n == nil {
		return &node[K, V]{key: k, val: v, height: 1, edit: e}
	}
	n = n.own(e)
	c := k.Compare(n.key)
	switch {
	case c < 0:
		n.left = n.left.set(e, k, v)
	case c > 0:
		n.right = n.right.set(e, k, v)
	default:
		n.val = v
		return n
	}
	return n.balance(e)
}

// remove returns n without k, which is in it.
func (n *node[K, V]) remove(e *edit, k K) *node[K, V] {
	c := k.Compare(n.key)
	switch {
	case c == 0 && n.left == nil:
		return n.right
	case c == 0 && n.right == nil:
		return n.left
	}
	n = n.own(e)
	switch {
	case c < 0:
		n.left = n.left.remove(e, k)
	case c > 0:
		n.right = n.right.remove(e, k)
	default:
		next := n.right
		for next.left != nil {
			next = next.left
		}
		n.key, n.val = next.key, next.val
		n.right = n.right.remove(e, next.key)
	}
	return n.balance(e)
}

func (n *node[K, V]) depth() int8 {
	if n == nil {
		return 0
	}
	return n.height
}

// balance restores the order of heights at n, which must be owned by e.
func (n *node[K, V]) balance(e *edit) *node[K, V] {
	switch d := n.left.depth() - n.right.depth(); {
	case d > 1:
		n.left = n.left.own(e)
		if n.left.left.depth() < n.left.right.depth() {
			n.left = n.left.rotateLeft(e)
		}
		return n.rotateRight(e)
	case d < -1:
		n.right = n.right.own(e)
		if n.right.right.depth() < n.right.left.depth() {
			n.right = n.right.rotateRight(e)
		}
		return n.rotateLeft(e)
	default:
		n.measure()
		return n
	}
}

func (n *node[K, V]) measure() { n.height = 1 + max(n.left.depth(), n.right.depth()) }

func (n *node[K, V]) rotateLeft(e *edit) *node[K, V] {
	top := n.right.own(e)
	n.right, top.left = top.left, n
	n.measure()
	top.measure()
	return top
}

func (n *node[K, V]) rotateRight(e *edit) *node[K, V] {
	top := n.left.own(e)
	n.left, top.right = top.right, n
	n.measure()
	top.measure()
	return top
}
