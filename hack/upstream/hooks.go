package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// A hook makes place for our adapters in one file of upstream. Functions and methods are renamed:
// "T.f" becomes T.upstreamF, and an adapter has the old name. Structs get fields.
type hook struct {
	file   string
	rename []string
	fields map[string]string // struct: the field
}

// hooks are all there are. A name that upstream does not have any more is an error.
func hooks() []hook {
	return []hook{
		{file: "pkg/proxy/topology.go", rename: []string{"CategorizeEndpoints"}},
		{
			file:   "pkg/proxy/endpointslicecache.go",
			rename: []string{"EndpointSliceCache.updatePending", "EndpointSliceCache.checkoutChanges"},
			fields: map[string]string{"EndpointSliceCache": "vipkit *vipkitSlices"},
		},
		{file: "pkg/proxy/endpointschangetracker_test.go", rename: []string{"initializeCache"}},
		{
			file: "pkg/proxy/servicechangetracker.go",
			rename: []string{
				"ServiceChangeTracker.Update", "ServiceChangeTracker.serviceToServiceMap", "ServicePortMap.Update",
			},
			fields: map[string]string{"ServiceChangeTracker": "vipkit *vipkitServices"},
		},
		{file: "pkg/proxy/util/nodeport_addresses.go", rename: []string{"NodePortAddresses.GetNodeIPs"}},
		{file: "pkg/proxy/util/utils.go", rename: []string{"ShouldSkipService", "GetClusterIPByFamily"}},
		{file: "pkg/proxy/nftables/proxier_test.go", rename: []string{"NewFakeProxier"}},
		{file: "pkg/proxy/nftables/helpers_test.go", rename: []string{"runPacketFlowTests"}},
		{file: "pkg/proxy/iptables/proxier_test.go", rename: []string{"NewFakeProxier", "runPacketFlowTests"}},
		{file: "pkg/proxy/ipvs/proxier.go", rename: []string{"Proxier.syncProxyRules"}},
		{file: "pkg/proxy/conntrack/cleanup.go", rename: []string{"CleanStaleEntries"}},
		{file: "pkg/proxy/healthcheck/service_health.go", rename: []string{"server.SyncServices", "server.SyncEndpoints"}},
		{
			file:   "pkg/registry/core/service/ipallocator/controller/repairip.go",
			rename: []string{"RepairIPAddress.doRunOnce"},
		},
	}
}

// An insertion is text that goes to a place of a file, after removing old bytes there.
type insertion struct {
	at   int
	old  int
	text string
}

// apply returns the source of the file with the hook in it.
func (h hook) apply(source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, h.file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	var edits []insertion
	var errs []error
	for _, name := range h.rename {
		f := function(file, name)
		if f == nil {
			errs = append(errs, fmt.Errorf("%s: has no function %s", h.file, name))
			continue
		}
		edits = append(edits, insertion{at: offset(f.Name.Pos()), old: len(f.Name.Name), text: renamed(f.Name.Name)})
	}
	for name, field := range h.fields {
		s := structure(file, name)
		if s == nil {
			errs = append(errs, fmt.Errorf("%s: has no struct %s", h.file, name))
			continue
		}
		edits = append(edits, insertion{at: offset(s.Fields.Closing), text: "\n" + field + "\n"})
	}
	return edit(source, edits), errors.Join(errs...)
}

// renamed returns the name that a function has beside our adapter.
func renamed(name string) string {
	r := []rune(name)
	r[0] = unicode.ToUpper(r[0])
	return "upstream" + string(r)
}

// function finds "f" or "T.f", whose receiver may be a pointer; nil if there is none.
func function(file *ast.File, name string) *ast.FuncDecl {
	receiver, name, isMethod := strings.Cut(name, ".")
	if !isMethod {
		receiver, name = "", receiver
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name && receiverOf(f) == receiver {
			return f
		}
	}
	return nil
}

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// structure finds the struct type of that name, nil if there is none.
func structure(file *ast.File, name string) *ast.StructType {
	var found *ast.StructType
	ast.Inspect(file, func(n ast.Node) bool {
		if t, ok := n.(*ast.TypeSpec); ok && t.Name.Name == name {
			found, _ = t.Type.(*ast.StructType)
		}
		return found == nil
	})
	return found
}

func edit(source []byte, edits []insertion) []byte {
	slices.SortFunc(edits, func(a, b insertion) int { return cmp.Compare(b.at, a.at) })
	out := slices.Clone(source)
	for _, e := range edits {
		out = slices.Replace(out, e.at, e.at+e.old, []byte(e.text)...)
	}
	return out
}
