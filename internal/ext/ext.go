// Package ext compares the values that hooks attach to Services and endpoints, of any type.
package ext

import "reflect"

// Usable reports whether v can be compared with == and equals itself, as a value must that
// says whether something changed.
func Usable(v any) bool {
	//nolint:gocritic // NaN does not equal itself
	return v == nil || reflect.ValueOf(v).Comparable() && v == v
}

// Equal is a == b, but false where that panics, since the values cannot be compared.
func Equal(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}
