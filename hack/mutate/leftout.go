package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// leftOut says whether a change of a node is no fault: it may change a text for people, a capacity or a duration
// that is only reported, or it would have to be constant. The rules go by syntax and type, never by name of a function of ours.
func (f *finder) leftOut(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return f.isText(n) || f.isHint(n) || f.isLock(n)
	case *ast.ExprStmt:
		return f.leftOut(n.X)
	case *ast.DeferStmt:
		return f.leftOut(n.Call)
	case *ast.AssignStmt:
		return len(n.Rhs) == 1 && f.isElapsed(n.Rhs[0])
	case *ast.GenDecl:
		return n.Tok != token.VAR // constants and types
	case *ast.ArrayType:
		return true // its length
	case *ast.KeyValueExpr:
		return f.isElapsed(n.Value)
	case *ast.CompositeLit:
		return f.isIndexed(n)
	}
	return false
}

// isText finds calls that make an error's text or write a log.
func (f *finder) isText(c *ast.CallExpr) bool {
	fn := f.callee(c)
	if fn == nil || fn.Pkg() == nil {
		return false
	}
	switch fn.Pkg().Path() {
	case "log/slog", "log":
		return true
	case "errors":
		return fn.Name() == "New"
	case "fmt":
		return fn.Name() == "Errorf"
	}
	return false
}

// isLock finds what keeps goroutines apart: only the race detector sees whether it is missing, and that is too slow here.
func (f *finder) isLock(c *ast.CallExpr) bool {
	fn := f.callee(c)
	return fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "sync" && strings.HasSuffix(fn.Name(), "ock")
}

// isHint finds what only makes room: slices.Grow, the size of a map, the capacity of a slice.
// A length that is not 0 does more.
func (f *finder) isHint(c *ast.CallExpr) bool {
	if fn := f.callee(c); fn != nil && fn.Pkg() != nil {
		switch fn.Pkg().Path() + "." + fn.Name() {
		case "slices.Grow", "slices.Clip", "strings.Grow":
			return true
		}
	}
	if !f.info.Types[c.Fun].IsBuiltin() || f.text(c.Fun) != "make" || len(c.Args) < 2 {
		return false
	}
	switch f.info.Types[c].Type.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Slice:
		return len(c.Args) == 3 && f.text(c.Args[1]) == "0"
	}
	return false
}

// isSymmetric finds functions of the standard library for which the order of the arguments does not matter.
func (f *finder) isSymmetric(c *ast.CallExpr) bool {
	fn := f.callee(c)
	return fn != nil && fn.Pkg() != nil && slices.Contains([]string{"slices.Equal", "maps.Equal", "bytes.Equal", "reflect.DeepEqual"}, fn.Pkg().Path()+"."+fn.Name())
}

// isElapsed finds a duration that is measured, and the time when it starts.
func (f *finder) isElapsed(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn := f.callee(c)
	return fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "time" && slices.Contains([]string{"Now", "Since"}, fn.Name())
}

// isIndexed finds an array or slice whose elements have constant indexes.
func (f *finder) isIndexed(c *ast.CompositeLit) bool {
	t := f.info.Types[c].Type
	if t == nil {
		return false
	}
	switch t.Underlying().(type) {
	case *types.Array, *types.Slice:
		return slices.ContainsFunc(c.Elts, func(e ast.Expr) bool { _, ok := e.(*ast.KeyValueExpr); return ok })
	}
	return false
}

// callee is the function that is called, nil if it is a value.
func (f *finder) callee(c *ast.CallExpr) *types.Func {
	var id *ast.Ident
	switch fun := c.Fun.(type) {
	case *ast.Ident:
		id = fun
	case *ast.SelectorExpr:
		id = fun.Sel
	default:
		return nil
	}
	fn, _ := f.info.Uses[id].(*types.Func)
	return fn
}
