package vipkit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// common are the files that every data plane has, so that who knows one finds their way in the others.
var common = []string{
	"doc",     // the documentation of the package: layout, hooks, marks, limits
	"options", // Options, their defaults and checks
	"backend", // Backend, New, Sync
	"compile", // from a Service port to objects of the data plane
	"base",    // objects that do not depend on Services
	"text",    // the language of the program or kernel that is written to
	"kernel",  // the seam to programs and kernel, and what is behind it
	"read",    // what is in place, after a restart or an error
	"check",   // Check
	"probe",   // Probe
	"render",  // Render, the rules of a plan as text
}

// own are the other files of each data plane.
var own = map[string][]string{
	"nftables": {
		"affinity", "batch", "cleanup", "clients", "codec", "edit", "exec", "features", "layout", "limits", "margin", "names", "pieces",
		"refused", "shared", "slots", "table", "warnings", "writer",
	},
	"iptables": {"canonical", "cleanup", "dialect", "names", "script", "sites", "trees", "write"},
	"ipvs":     {"apply", "dialect", "drain", "errors", "links", "marks", "program", "reconciler", "server", "write"},
}

func TestDataPlanesHaveTheSameFiles(t *testing.T) {
	for name, others := range own {
		files, err := filepath.Glob("backends/" + name + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, f := range files {
			if base := filepath.Base(f); !strings.HasSuffix(base, "_test.go") {
				have = append(have, withoutPlatform(base))
			}
		}
		for _, want := range slices.Concat(common, others) {
			if !slices.Contains(have, want) {
				t.Errorf("backends/%s has no %s.go", name, want)
			}
		}
		for _, f := range have {
			if !slices.Contains(common, f) && !slices.Contains(others, f) {
				t.Errorf("backends/%s/%s.go is neither common nor in the list of its own files", name, f)
			}
		}
	}
}

// withoutPlatform returns the name of a file without its suffixes.
func withoutPlatform(name string) string {
	name = strings.TrimSuffix(name, ".go")
	for _, platform := range []string{"_linux", "_unix", "_other"} {
		name = strings.TrimSuffix(name, platform)
	}
	return name
}

// TestFields finds what a struct must not have: a context, which is an argument, and an embedded *Backend, which would
// hide what a part of a Sync uses of it.
func TestFields(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || matches([]string{"examples/", "hack/", "bench/"}, f.pkg) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				checkFields(t, f.name, s)
			}
			return true
		})
	}
}

func checkFields(t *testing.T, file string, s *ast.StructType) {
	t.Helper()
	for _, field := range s.Fields.List {
		switch typ := field.Type.(type) {
		case *ast.SelectorExpr:
			if x, ok := typ.X.(*ast.Ident); ok && x.Name == "context" && typ.Sel.Name == "Context" {
				t.Errorf("%s: a struct has a context", file)
			}
		case *ast.StarExpr:
			if x, ok := typ.X.(*ast.Ident); ok && x.Name == "Backend" && len(field.Names) == 0 {
				t.Errorf("%s: a struct embeds *Backend", file)
			}
		}
	}
}
