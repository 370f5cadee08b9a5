package vipkit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/vipkit/vipkit"

// allowed says which packages of this module each package may import, test files
// aside. A name that ends in "/" stands for all packages below. Adding an arrow is a
// decision about the architecture; see ARCHITECTURE.md.
var allowed = map[string][]string{
	".":             {},
	"endpoints":     {"internal/ext", "internal/ip", "internal/special"},
	"proxy/service": {"internal/ext", "internal/ip", "internal/printable", "internal/special"},
	"topology":      {"endpoints", "internal/printable", "proxy/service"},
	"proxy/plan":    {"endpoints", "internal/ext", "internal/ip", "internal/printable", "proxy/service", "topology"},
	"backends":      {"proxy/plan"},
	"proxy":         {"backends", "endpoints", "internal/ip", "proxy/plan", "proxy/service"},
	"healthcheck":   {"endpoints", "internal/bounded", "internal/ip", "proxy/plan", "proxy/service"},
	"allocator":     {"internal/bounded", "internal/ip"},

	"internal/bounded":     {},
	"internal/conformance": {},
	"internal/ext":         {},
	"internal/ip":          {},
	"internal/printable":   {},
	"internal/sections":    {},
	"internal/special":     {},

	"backends/engine":      {"backends", "proxy/plan"},
	"backends/fake":        backendImports,
	"backends/nftables":    backendImports,
	"backends/iptables":    backendImports,
	"backends/ipvs":        append([]string{"backends/ipvs/internal/"}, backendImports...),
	"backends/conntrack":   backendImports,
	"backends/internal/":   {"backends", "backends/internal/", "endpoints", "proxy/plan", "proxy/service"},
	"backends/backendtest": append([]string{"topology", "backends/backendtest/netlab", "internal/sections"}, backendImports...),

	"backends/backendtest/netlab": {},
	"backends/ipvs/internal/":     {},
	"backends/ipvs/ipvstest":      {"backends", "backends/ipvs", "backends/ipvs/internal/", "internal/ip"},

	"allocator/": {"allocator", "allocator/"},
	"examples/":  {""},
	"hack/":      {""},
	"bench/":     {""},
}

// backendImports is what a data plane may know: never a sibling, never the loop.
var backendImports = []string{"backends", "backends/engine", "backends/internal/", "endpoints", "internal/bounded", "internal/ip", "proxy/plan", "proxy/service"}

// forbidden are modules that belong into examples/agent only.
var forbidden = []string{"k8s.io/client-go", "k8s.io/klog", "github.com/prometheus", "k8s.io/kubernetes"}

// readers may read API objects. The others know the API's names for protocols
// and families only.
var readers = []string{"endpoints", "proxy/service", "proxy", "healthcheck", "allocator", "allocator/", "backends/backendtest", "examples/", "hack/"}

var apiNames = []string{"Protocol", "ProtocolTCP", "ProtocolUDP", "ProtocolSCTP", "IPFamily", "IPv4Protocol", "IPv6Protocol"}

func TestImports(t *testing.T) {
	for _, f := range sources(t) {
		for _, imported := range f.imports {
			if i := slices.IndexFunc(forbidden, func(m string) bool { return below(imported, m) }); i >= 0 {
				t.Errorf("%s imports %s: not in the root module", f.name, imported)
			}
			if !f.test && below(imported, module) {
				checkArrow(t, f, strings.TrimPrefix(strings.TrimPrefix(imported, module), "/"))
			}
		}
	}
}

func checkArrow(t *testing.T, f source, imported string) {
	t.Helper()
	row, ok := rowOf(f.pkg)
	if !ok {
		t.Errorf("%s: package %s has no row in the table of allowed imports", f.name, f.pkg)
		return
	}
	if !matches(row, imported) {
		t.Errorf("%s: package %s may not import %s", f.name, f.pkg, imported)
	}
}

func TestImportsTableHasEveryPackage(t *testing.T) {
	for _, f := range sources(t) {
		if _, ok := rowOf(f.pkg); !ok && !f.test {
			t.Errorf("%s: package %s has no row in the table of allowed imports", f.name, f.pkg)
		}
	}
}

func TestOnlyReadersReadObjects(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || matches(readers, f.pkg) {
			continue
		}
		for _, imported := range f.imports {
			if below(imported, "k8s.io/api") && imported != "k8s.io/api/core/v1" {
				t.Errorf("%s imports %s: package %s may not read API objects", f.name, imported, f.pkg)
			}
		}
		for _, name := range f.core {
			if !slices.Contains(apiNames, name) {
				t.Errorf("%s uses corev1.%s: package %s may not read API objects", f.name, name, f.pkg)
			}
		}
	}
}

// rowOf returns the row of a package: its own, or the longest that ends in "/" and is
// a prefix.
func rowOf(pkg string) ([]string, bool) {
	if row, ok := allowed[pkg]; ok {
		return row, true
	}
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if row, ok := allowed[dir+"/"]; ok {
			return row, true
		}
	}
	return nil, false
}

// matches reports whether pkg is in list, or below an entry that ends in "/" or
// is empty.
func matches(list []string, pkg string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return entry == pkg || entry == "" || strings.HasSuffix(entry, "/") && strings.HasPrefix(pkg, entry)
	})
}

func below(imported, root string) bool {
	return imported == root || strings.HasPrefix(imported, root+"/")
}

// A source is what one Go file of the root module imports.
type source struct {
	name, pkg string
	test      bool
	imports   []string
	core      []string // names used of k8s.io/api/core/v1
}

// sources reads every Go file of the root module.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(name)
		}
		if strings.HasSuffix(name, ".go") {
			out = append(out, read(t, name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d files found", len(out))
	}
	return out
}

// skipDir skips what go build skips, and folders that are modules of their own.
func skipDir(name string) error {
	base := filepath.Base(name)
	if name != "." && (base == "testdata" || base[0] == '.' || base[0] == '_') {
		return filepath.SkipDir
	}
	if mods, _ := filepath.Glob(filepath.Join(name, "go.mod")); name != "." && len(mods) > 0 {
		return filepath.SkipDir
	}
	return nil
}

func read(t *testing.T, name string) source {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	s := source{name: name, pkg: filepath.ToSlash(filepath.Dir(name)), test: strings.HasSuffix(name, "_test.go")}
	local := ""
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.imports = append(s.imports, imported)
		if imported == "k8s.io/api/core/v1" {
			local = "v1"
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	if local != "" {
		s.core = selected(file, local)
	}
	return s
}

// selected returns the names that file uses of the package it calls local.
func selected(file *ast.File, local string) []string {
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				names = append(names, sel.Sel.Name)
			}
		}
		return true
	})
	return names
}
