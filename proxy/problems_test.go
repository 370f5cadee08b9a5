package proxy

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestProblemsSet(t *testing.T) {
	bad := func(path, value string) *field.Error { return field.Invalid(field.NewPath(path), value, "is wrong") }
	ps := problems{}
	d := ps.set("Service a/b", field.ErrorList{bad("b", "1"), bad("a", "1"), bad("b", "1")})
	if len(d.found) != 2 || d.found[0].Field != "a" || d.found[1].Field != "b" || len(ps.list()) != 2 {
		t.Errorf("found %v, kept %v, want two, sorted", d.found, ps.list())
	}
	d = ps.set("Service a/b", field.ErrorList{bad("b", "2")})
	if len(d.found) != 1 || len(d.gone) != 2 {
		t.Errorf("another value: found %v, gone %v, want one and two", d.found, d.gone)
	}
	if d = ps.set("Service a/b", nil); len(d.gone) != 1 || len(ps) != 0 {
		t.Errorf("no problem: gone %v, kept %v, want one and none", d.gone, ps)
	}
}
