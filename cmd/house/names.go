package main

import (
	"fmt"
	"go/ast"
	"strings"
	"unicode"
)

// maxOneWord bounds the percentage of unexported functions and methods with a one-word name,
// maxSharedOneWord that of those that are used outside their file.
const maxOneWord, maxSharedOneWord = 35, 25

// names holds the unexported functions and methods of a package.
type names struct {
	declared []declaration
	used     map[mention]map[string]bool // files that mention a name

	all, shared share
}

// declaration is one unexported function or method.
type declaration struct {
	mention
	file string
}

// mention is a name as it is used: a method behind a dot, a function without one.
type mention struct {
	name   string
	method bool
}

// share counts functions, and those of them with a one-word name.
type share struct{ functions, oneWord int }

// String formats s as numbers and a percentage.
func (s share) String() string {
	return fmt.Sprintf("%d of %d (%.1f %%)", s.oneWord, s.functions, s.oneWordPercent())
}

func (s share) oneWordPercent() float64 {
	return 100 * float64(s.oneWord) / float64(max(s.functions, 1))
}

// readFile adds the functions that file declares, and the names that it selects, calls or uses
// where a function value can be.
func (n *names) readFile(path string, file *ast.File) {
	if n.used == nil {
		n.used = map[mention]map[string]bool{}
	}
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if ok && !d.Name.IsExported() && d.Name.Name != "main" && d.Name.Name != "init" && d.Name.Name != "_" {
			n.declared = append(n.declared, declaration{mention{d.Name.Name, d.Recv != nil}, path})
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			n.noteMention(mention{node.Sel.Name, true}, path)
		case *ast.CallExpr:
			n.noteExpressions(path, append(node.Args, node.Fun)...)
		case *ast.KeyValueExpr:
			n.noteExpressions(path, node.Value)
		case *ast.AssignStmt:
			n.noteExpressions(path, node.Rhs...)
		case *ast.ReturnStmt:
			n.noteExpressions(path, node.Results...)
		}
		return true
	})
}

func (n *names) noteExpressions(path string, expressions ...ast.Expr) {
	for _, e := range expressions {
		if id, ok := e.(*ast.Ident); ok {
			n.noteMention(mention{id.Name, false}, path)
		}
	}
}

func (n *names) noteMention(m mention, path string) {
	if n.used[m] == nil {
		n.used[m] = map[string]bool{}
	}
	n.used[m][path] = true
}

// countShares fills all and shared. A name that another file mentions for another purpose counts as
// used there: types are not resolved.
func (n *names) countShares() {
	n.all, n.shared = share{}, share{}
	for _, d := range n.declared {
		n.all.addName(d.name)
		for file := range n.used[d.mention] {
			if file != d.file {
				n.shared.addName(d.name)
				break
			}
		}
	}
}

func (s *share) addName(name string) {
	s.functions++
	if countWords(name) == 1 {
		s.oneWord++
	}
}

func (n *names) addNames(other names) {
	n.all.functions += other.all.functions
	n.all.oneWord += other.all.oneWord
	n.shared.functions += other.shared.functions
	n.shared.oneWord += other.shared.oneWord
}

// countWords returns the number of words of a name in camel case. Words without a meaning of their
// own and digits count only at its beginning.
func countWords(name string) int {
	var words []string
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]) {
			words = append(words, strings.TrimRightFunc(string(runes[start:i]), unicode.IsDigit))
			start = i
		}
	}
	n := 0
	for i, word := range words {
		switch strings.ToLower(word) {
		case "", "it", "one", "now", "all", "do":
			if i > 0 {
				continue
			}
		}
		n++
	}
	return n
}
