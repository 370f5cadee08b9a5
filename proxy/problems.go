package proxy

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/proxy/plan"
)

// problems are the current problems by object, as in "Service default/web".
type problems map[string][]plan.Problem

// A problemDiff is what a change of the input did to the problems, sorted.
type problemDiff struct{ found, gone []plan.Problem }

// set takes the problems of one object; none forgets it.
func (ps problems) set(object string, errs field.ErrorList) problemDiff {
	before := ps[object]
	if len(errs) == 0 {
		delete(ps, object)
		return problemDiff{gone: before}
	}
	after := toProblems(object, errs)
	ps[object] = after
	return diffProblems(before, after)
}

// replace takes the problems of all objects of one kind.
func (ps problems) replace(kind string, errs map[string]field.ErrorList) problemDiff {
	var before, after []plan.Problem
	for object, list := range ps {
		if strings.HasPrefix(object, kind+" ") {
			before = append(before, list...)
			delete(ps, object)
		}
	}
	for object, list := range errs {
		if len(list) > 0 {
			ps[object] = toProblems(object, list)
			after = append(after, ps[object]...)
		}
	}
	return diffProblems(before, after)
}

// list returns all problems in no particular order.
func (ps problems) list() []plan.Problem {
	var all []plan.Problem
	for _, list := range ps {
		all = append(all, list...)
	}
	return all
}

// toProblems returns errs sorted and without repetitions.
func toProblems(object string, errs field.ErrorList) []plan.Problem {
	list := make([]plan.Problem, 0, len(errs))
	for _, err := range errs {
		list = append(list, plan.Problem{Object: object, Field: err.Field, Err: err.ErrorBody()})
	}
	slices.SortFunc(list, compareProblems)
	return slices.Compact(list)
}

func compareProblems(a, b plan.Problem) int {
	return cmp.Or(strings.Compare(a.Object, b.Object), strings.Compare(a.Field, b.Field), strings.Compare(a.Err, b.Err))
}

// objectName returns the name of an object in a [plan.Problem]; namespace is "" for
// a kind that has none.
func objectName(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

func diffProblems(before, after []plan.Problem) problemDiff {
	d := problemDiff{found: missing(after, before), gone: missing(before, after)}
	slices.SortFunc(d.found, compareProblems)
	slices.SortFunc(d.gone, compareProblems)
	return d
}

// missing returns what is in list and not in from, in the order of list.
func missing[T comparable](list, from []T) []T {
	seen := make(map[T]bool, len(from))
	for _, v := range from {
		seen[v] = true
	}
	var out []T
	for _, v := range list {
		if !seen[v] {
			out = append(out, v)
		}
	}
	return out
}
