package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// A finder collects the mutants of one package.
type finder struct {
	*source
	file   *file
	fn     string
	consts map[types.Type][]*types.Const
	tail   map[ast.Stmt]bool // returns that the compiler wants
	out    []*mutant
}

// add notes a fault at one or more pieces of source, in order.
func (f *finder) add(op string, sites ...site) {
	tokens := f.fset.File(f.file.tree.FileStart)
	pos := tokens.Position(tokens.Pos(sites[0].start))
	f.out = append(f.out, &mutant{dir: f.dir, fn: f.fn, op: op, sites: sites, pos: pos})
}

// at is the site of a node.
func (f *finder) at(n ast.Node, form form, alt string) site {
	return site{
		file: f.file, start: f.fset.Position(n.Pos()).Offset, end: f.fset.Position(n.End()).Offset,
		form: form, alt: alt,
	}
}

// text is the source of a node.
func (f *finder) text(n ast.Node) string {
	s := f.at(n, value, "")
	return string(f.file.text[s.start:s.end])
}

// walk visits what a function holds, and leaves out what decides nothing.
func (f *finder) walk(body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		if n == nil || f.leftOut(n) {
			return false
		}
		f.visit(n)
		return true
	})
}

func (f *finder) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncLit:
		f.tails(n.Type, n.Body)
	case *ast.BlockStmt:
		f.dropAny(n.List)
	case *ast.CaseClause:
		f.dropAny(n.Body)
		f.cases(n)
	case *ast.CommClause:
		f.dropAny(n.Body)
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ForStmt:
		f.negate(n.Cond)
	case *ast.ReturnStmt:
		for _, r := range n.Results {
			f.negate(r)
		}
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.CallExpr:
		f.arguments(n)
	case *ast.BasicLit:
		f.literal(n)
	case *ast.Ident, *ast.SelectorExpr:
		f.constant(n.(ast.Expr)) //nolint:forcetypeassert // both are
	}
}

// cases negates those of a switch without a tag.
func (f *finder) cases(c *ast.CaseClause) {
	for _, e := range c.List {
		f.negate(e)
	}
}

// negate turns a condition round. The parts of && and || are turned round one by one, by binary.
func (f *finder) negate(e ast.Expr) {
	if e == nil || !f.isBool(e) {
		return
	}
	if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
		return
	}
	if id, ok := e.(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") {
		return
	}
	alt := "!(" + f.text(e) + ")"
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.NOT {
		alt = f.text(u.X)
	}
	f.add("negate", f.at(e, condition, alt))
}

// isBool says whether an expression is of type bool itself.
func (f *finder) isBool(e ast.Expr) bool {
	t, ok := f.info.Types[e]
	if !ok || !t.IsValue() || t.Value != nil {
		return false
	}
	b, ok := t.Type.(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// binary changes an operator, its operands, or the order of both.
func (f *finder) binary(b *ast.BinaryExpr) {
	if v := f.info.Types[b]; v.Value != nil {
		return // a constant stays one
	}
	with := func(op string) string { return f.text(b.X) + " " + op + " " + f.text(b.Y) }
	switch b.Op { //nolint:exhaustive // other operators stay
	case token.LAND, token.LOR:
		f.negate(b.X)
		f.negate(b.Y)
		if f.isBool(b) {
			alt := with("&&")
			if b.Op == token.LAND {
				alt = "(" + with("||") + ")" // it may be a part of another &&
			}
			f.add("swap", f.at(b, condition, alt))
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		near := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
		if f.isBool(b) {
			f.add("off-by-one", f.at(b, condition, with(near[b.Op])))
		}
	case token.SUB, token.QUO, token.REM, token.SHL, token.SHR, token.AND_NOT:
		if plain(b.X) && plain(b.Y) && f.same(b.X, b.Y) {
			f.swap(b.X, b.Y)
		}
	}
}

// arguments swaps neighbours of one type.
func (f *finder) arguments(c *ast.CallExpr) {
	if t := f.info.Types[c.Fun]; t.IsType() || t.IsBuiltin() && f.text(c.Fun) != "append" || f.isSymmetric(c) {
		return
	}
	for i := range len(c.Args) - 1 {
		a, b := c.Args[i], c.Args[i+1]
		if plain(a) && plain(b) && f.same(a, b) && f.text(a) != f.text(b) {
			f.swap(a, b)
		}
	}
}

func (f *finder) swap(a, b ast.Expr) {
	typ, ok := f.spelled(a)
	if !ok {
		return
	}
	first, second := f.at(a, value, f.text(b)), f.at(b, value, f.text(a))
	first.typ, second.typ = typ, typ
	f.add("swap", first, second)
}

// literal is off by one, where a variable could stand as well.
func (f *finder) literal(l *ast.BasicLit) {
	if l.Kind != token.INT {
		return
	}
	n, err := strconv.ParseInt(l.Value, 0, 64)
	typ, ok := f.spelled(l)
	if err != nil || !ok {
		return
	}
	s := f.at(l, value, strconv.FormatInt(n+1, 10))
	s.typ = typ
	f.add("off-by-one", s)
}

// constant is replaced by the next one of its type, and true by false.
func (f *finder) constant(e ast.Expr) {
	id, ok := e.(*ast.Ident)
	if sel, isSel := e.(*ast.SelectorExpr); isSel {
		if _, ok = sel.X.(*ast.Ident); ok {
			id = sel.Sel
		}
	}
	if !ok {
		return
	}
	c, ok := f.info.Uses[id].(*types.Const)
	if !ok {
		return
	}
	if c.Pkg() == nil && (c.Name() == "true" || c.Name() == "false") {
		f.add("swap", f.flip(e, c.Name()))
		return
	}
	siblings := f.consts[c.Type()]
	i := slices.Index(siblings, c)
	if i < 0 || len(siblings) < 2 {
		return
	}
	next := siblings[(i+1)%len(siblings)].Name()
	if sel, isSel := e.(*ast.SelectorExpr); isSel {
		next = f.text(sel.X) + "." + next
	}
	typ, ok := f.spelled(e)
	if !ok {
		return
	}
	s := f.at(e, value, next)
	s.typ = typ
	f.add("swap", s)
}

func (f *finder) flip(e ast.Expr, name string) site {
	s := f.at(e, value, map[string]string{"true": "false", "false": "true"}[name])
	s.typ = "bool"
	return s
}

// dropAny leaves out each statement of a list on its own.
func (f *finder) dropAny(list []ast.Stmt) {
	for _, s := range list {
		if f.leftOut(s) || f.tail[s] || !droppable(s) {
			continue
		}
		f.add("drop", f.at(s, statement, ""))
	}
}

// droppable says whether a program without the statement is still one: nothing is declared in it.
func droppable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	case *ast.LabeledStmt, *ast.DeclStmt, *ast.EmptyStmt, *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		return false
	}
	return true
}

// tails notes what ends a function: the compiler wants it there, or it changes nothing.
func (f *finder) tails(typ *ast.FuncType, body *ast.BlockStmt) {
	if len(body.List) > 0 && typ.Results != nil {
		f.tail[body.List[len(body.List)-1]] = true
	}
	f.tailOf(body.List)
}

func (f *finder) tailOf(list []ast.Stmt) {
	if len(list) == 0 {
		return
	}
	switch s := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		f.tail[s] = true
	case *ast.IfStmt:
		f.tailOfIf(s)
	case *ast.SwitchStmt:
		f.tailOfClauses(s.Body)
	case *ast.TypeSwitchStmt:
		f.tailOfClauses(s.Body)
	case *ast.SelectStmt:
		f.tailOfClauses(s.Body)
	}
}

func (f *finder) tailOfIf(s *ast.IfStmt) {
	switch other := s.Else.(type) {
	case *ast.BlockStmt:
		f.tailOf(other.List)
	case *ast.IfStmt:
		f.tailOfIf(other)
	default:
		return
	}
	f.tailOf(s.Body.List)
}

func (f *finder) tailOfClauses(body *ast.BlockStmt) {
	for _, c := range body.List {
		switch c := c.(type) {
		case *ast.CaseClause:
			f.tailOf(c.Body)
		case *ast.CommClause:
			f.tailOf(c.Body)
		}
	}
}

// plain says whether evaluating an expression once more changes nothing.
func plain(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name != "_"
	case *ast.BasicLit:
		return true
	case *ast.SelectorExpr:
		return plain(e.X)
	}
	return false
}

func (f *finder) same(a, b ast.Expr) bool {
	x, y := f.info.Types[a], f.info.Types[b]
	return x.IsValue() && y.IsValue() && types.Identical(x.Type, y.Type)
}

// spelled returns the type of an expression as the file can write it; empty if the compiler infers it.
func (f *finder) spelled(e ast.Expr) (string, bool) {
	t, ok := f.info.Types[e]
	if !ok {
		return "", false
	}
	if t.Value == nil && !t.IsNil() {
		return "", true
	}
	if b, isBasic := t.Type.(*types.Basic); isBasic && b.Info()&types.IsUntyped != 0 {
		return "", false
	}
	known := true
	s := types.TypeString(t.Type, func(p *types.Package) string {
		if p == f.types {
			return ""
		}
		n := f.importName(p)
		known = known && n != ""
		return n
	})
	return s, known
}

// importName is how the file calls a package, empty if it does not.
func (f *finder) importName(p *types.Package) string {
	for _, i := range f.file.tree.Imports {
		if strings.Trim(i.Path.Value, `"`) != p.Path() {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return p.Name()
	}
	return ""
}
