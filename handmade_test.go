package vipkit_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"math"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/backends/iptables"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/ipvs/ipvstest"
	"github.com/vipkit/vipkit/backends/nftables"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
	"github.com/vipkit/vipkit/topology"
)

// handMade are the exported functions that must bear values that nobody should make: nil, zero
// and what cannot be compared. Package allocator has a test of its own.
var handMade = map[string]any{
	"endpoints.Better":                      endpoints.Better,
	"endpoints.Compare":                     endpoints.Compare,
	"endpoints.Equal":                       endpoints.Equal,
	"endpoints.NewSet":                      endpoints.NewSet,
	"endpoints.NewEndpointsChangeTracker":   endpoints.NewEndpointsChangeTracker,
	"topology.Select":                       topology.Select,
	"proxy/service.NewServiceChangeTracker": service.NewServiceChangeTracker,
	"proxy/plan.New":                        plan.New,
	"proxy/plan.Full":                       plan.Full,
	"proxy/plan.ParseNodePortSelector":      plan.ParseNodePortSelector,
	"proxy.New":                             proxy.New,
	"proxy.ReadNode":                        proxy.ReadNode,
	"healthcheck.New":                       healthcheck.New,
	"healthcheck.NewServices":               healthcheck.NewServices,
	"healthcheck.Eligible":                  healthcheck.Eligible,
	"backends/conntrack.New":                conntrack.New,
	"backends/conntrack.NewJudge":           conntrack.NewJudge,
	"backends/conntrack.DefaultSettings":    conntrack.DefaultSettings,
	"backends/nftables.Render":              nftables.Render,
	"backends/iptables.Render":              iptables.Render,
	"backends/ipvs.Render":                  ipvs.Render,
}

// exempt are exported functions that are not called here, with the reason.
var exempt = map[string]string{
	"healthcheck.Services.Close":        "called when the test ends",
	"proxy/plan.Port.Compare":           "of the embedded Key, which nil has not",
	"proxy/plan.Port.MarshalLog":        "of the embedded Key, which nil has not",
	"healthcheck.Health.Serve":          "listens",
	"backends/conntrack.Netlink.Flows":  "reads the host's table",
	"backends/conntrack.Netlink.Delete": "writes to the host's table",
	"backends/conntrack.Settings.Apply": "writes to /proc/sys",
}

// handMadeMethods returns values whose methods must bear the same: nil, zero, and what a
// constructor returned.
func handMadeMethods(t *testing.T) []any {
	t.Helper()
	loop := healthcheck.New(healthcheck.Options{}).Loop("x")
	services, err := healthcheck.NewServices(healthcheck.ServicesOptions{Loop: loop})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(services.Close)
	p, err := proxy.New(proxy.Options{Backend: &fake.Backend{}})
	if err != nil {
		t.Fatal(err)
	}
	var noPlan *plan.Plan
	var noPort *plan.Port
	var noFrontend *plan.Frontend
	var noEndpoint *endpoints.Endpoint
	var noHints *endpoints.Hints
	var noSet *endpoints.Set
	var noService *service.Service
	return []any{
		noEndpoint, &endpoints.Endpoint{}, noHints, &endpoints.Hints{}, noSet, &endpoints.Set{},
		endpoints.Key{},
		endpoints.NewEndpointsChangeTracker(endpoints.Options{}),
		noService, &service.Service{},
		service.PortName{},
		service.Policy{},
		service.NewServiceChangeTracker(service.Options{}),
		topology.Mode(250),
		noPlan, &plan.Plan{}, plan.New(plan.Config{}), noPort, &plan.Port{}, noFrontend, &plan.Frontend{}, &plan.Cursor{},
		plan.Key{},
		&plan.PartialError{}, &plan.PartialError{Ports: map[plan.Key]error{{}: nil}},
		plan.Conflict{},
		plan.Problem{},
		plan.Health{},
		plan.Shape{},
		plan.Shape{250},
		&plan.Trace{},
		plan.NodePortAddresses{},
		plan.Action{Verdict: 250, Pool: 250},
		plan.FrontendKind(250), plan.Origin(-1), plan.Verdict(250), plan.Pool(250),
		p,
		proxy.Round{},
		services, loop, healthcheck.New(healthcheck.Options{}),
		&backends.UnsupportedError{},
		backends.Stats{},
		&backends.LimitError{}, &fake.Backend{},
		conntrack.New(conntrack.Options{Table: emptyTable{}}), conntrack.NewJudge(nil, "", nil),
		conntrack.Settings{},
		conntrack.Netlink{},
		&ipvstest.Memory{}, ipvs.NewReconciler((&ipvstest.Memory{}).Kernel(), 0), ipvs.NewReconciler(nil, 0),
		ipvs.ServerKey{},
		ipvs.RealServer{},
	}
}

type emptyTable struct{}

func (emptyTable) Flows(context.Context, corev1.IPFamily) iter.Seq2[conntrack.Flow, error] {
	return func(func(conntrack.Flow, error) bool) {}
}

func (emptyTable) Delete(context.Context, []conntrack.Flow) (int, error) { return 0, nil }

// TestHandMadeValues calls every exported function of the packages in handMadePackages that reads
// values of callers.
func TestHandMadeValues(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what runs until its context is done returns
	for name, f := range handMade {
		t.Run("fault F31 "+name, func(t *testing.T) { callAll(ctx, t, reflect.ValueOf(f)) })
	}
	for _, v := range handMadeMethods(t) {
		v := reflect.ValueOf(v)
		for i := range v.NumMethod() {
			name := methodName(v.Type(), v.Type().Method(i).Name)
			if exempt[name] == "" {
				t.Run("fault F31 "+name, func(t *testing.T) { callAll(ctx, t, v.Method(i)) })
			}
		}
	}
}

// handMadePackages are those whose exported functions TestHandMadeValues must call. Those of a
// kernel's data plane are called through the loop, with what a Cursor makes.
var handMadePackages = []string{"endpoints", "topology", "proxy/service", "proxy/plan", "proxy", "healthcheck", "backends", "backends/fake", "backends/conntrack"}

func TestHandMadeValuesOfAllFunctions(t *testing.T) {
	called := map[string]bool{}
	for name := range handMade {
		called[name] = true
	}
	for _, v := range handMadeMethods(t) {
		kind := reflect.TypeOf(v)
		for i := range kind.NumMethod() {
			called[methodName(kind, kind.Method(i).Name)] = true
		}
	}
	for _, dir := range handMadePackages {
		for _, name := range exported(t, dir) {
			if !called[name] && exempt[name] == "" {
				t.Errorf("%s is not called with hand-made values", name)
			}
		}
	}
}

// methodName returns the name of a method as in "proxy/plan.Plan.Port".
func methodName(v reflect.Type, method string) string {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return strings.TrimPrefix(v.PkgPath(), module+"/") + "." + v.Name() + "." + method
}

// exported returns the names of the exported functions and methods of a package.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	var names []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			if f.Recv == nil {
				names = append(names, dir+"."+f.Name.Name)
				continue
			}
			if of := receiver(f); ast.IsExported(of) {
				names = append(names, dir+"."+of+"."+f.Name.Name)
			}
		}
	}
	return names
}

func receiver(f *ast.FuncDecl) string {
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

// callAll calls f with every pair of hand-made values for neighbouring parameters. The Delta of
// a Sync is never nil, as the documentation says.
func callAll(ctx context.Context, t *testing.T, f reflect.Value) {
	t.Helper()
	lists := make([][]reflect.Value, f.Type().NumIn())
	for i := range lists {
		lists[i] = nasty(ctx, f.Type().In(i))
		if f.Type() == reflect.TypeFor[func(context.Context, *plan.Delta) error]() {
			lists[i] = slices.DeleteFunc(lists[i], func(v reflect.Value) bool { return v.Kind() == reflect.Pointer && v.IsNil() })
		}
	}
	const most = 8 // values for one parameter
	for i := range most {
		for j := range most {
			args := make([]reflect.Value, len(lists))
			for n, list := range lists {
				args[n] = list[[]int{i, j}[n%2]%len(list)]
			}
			call(t, f, args)
		}
	}
}

func call(t *testing.T, f reflect.Value, args []reflect.Value) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	results := f.CallSlice
	if !f.Type().IsVariadic() {
		results = f.Call
	}
	for _, r := range results(args) {
		switch kind := r.Type(); {
		case kind.Kind() == reflect.Func && kind.NumIn() == 1 && kind.In(0).Kind() == reflect.Func && !r.IsNil(): // an iterator
			r.Call([]reflect.Value{reflect.MakeFunc(kind.In(0), func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.ValueOf(true)} })})
		case kind.Implements(reflect.TypeFor[fmt.Stringer]()) && (r.Kind() != reflect.Pointer || !r.IsNil()):
			_ = fmt.Sprint(r.Interface())
		}
	}
}

// nasty returns values of a type that nobody should make, and a done context.
func nasty(ctx context.Context, of reflect.Type) []reflect.Value {
	zero := reflect.Zero(of)
	switch {
	case of == reflect.TypeFor[context.Context]():
		return []reflect.Value{reflect.ValueOf(ctx)}
	case of.Kind() == reflect.Interface && of.NumMethod() == 0:
		return []reflect.Value{zero, reflect.ValueOf([]int{1}), reflect.ValueOf(math.NaN())}
	case of == reflect.TypeFor[error]():
		return []reflect.Value{zero, reflect.ValueOf(fmt.Errorf("some")), reflect.ValueOf(&plan.PartialError{}), reflect.ValueOf(&plan.PartialError{Ports: map[plan.Key]error{{}: nil}})}
	}
	switch of.Kind() { //nolint:exhaustive // the others have the zero value only
	case reflect.Pointer:
		list := []reflect.Value{zero}
		for _, v := range nasty(ctx, of.Elem()) {
			p := reflect.New(of.Elem())
			p.Elem().Set(v)
			list = append(list, p)
		}
		return list
	case reflect.Slice:
		list := []reflect.Value{zero}
		for _, v := range nasty(ctx, of.Elem()) {
			list = append(list, reflect.Append(zero, v, v))
		}
		return list
	case reflect.Map:
		list := []reflect.Value{zero}
		for _, v := range nasty(ctx, of.Elem()) {
			m := reflect.MakeMap(of)
			m.SetMapIndex(reflect.Zero(of.Key()), v)
			list = append(list, m)
		}
		return list
	case reflect.Struct:
		return nastyStructs(ctx, of)
	default:
		return []reflect.Value{zero}
	}
}

// nastyStructs returns the zero value and, for each exported field that is a map, a list or Ext, one
// with each nasty value of the field.
func nastyStructs(ctx context.Context, of reflect.Type) []reflect.Value {
	list := []reflect.Value{reflect.Zero(of)}
	if !strings.HasPrefix(of.PkgPath(), module) {
		return list
	}
	for i := range of.NumField() {
		field := of.Field(i)
		if kind := field.Type.Kind(); !field.IsExported() || kind != reflect.Map && kind != reflect.Slice && field.Name != "Ext" && field.Type != reflect.TypeFor[service.Addresses]() {
			continue
		}
		if strings.Contains(field.Type.String(), "Hints") {
			continue
		}
		for _, v := range nasty(ctx, field.Type)[1:] {
			s := reflect.New(of).Elem()
			s.Field(i).Set(v)
			list = append(list, s)
		}
	}
	return list
}
