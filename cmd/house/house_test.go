package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCountWords(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"note": 1, "noteIt": 1, "keepNow": 1, "ended2": 1, "doAll": 1, "readHTML": 2, "countWords": 2, "isOne": 1,
		"oneAgent": 2, "hasCutSteps": 3, "toS3": 2,
	} {
		require.Equal(t, want, countWords(name), name)
	}
}

const source = `package p

type State struct{}

func (s *State) end()        {}
func finish(s *State)        { s.end() }
func start(s State, n int)   {}
func Start(text string)      {}
func makeState() (s *State)  { return nil }
func each[T any](l list[T])  {}
type list[T any] []T
`

func TestMethodOf(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	got := map[string]string{}
	for _, decl := range file.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok {
			got[d.Name.Name] = methodOf(d)
		}
	}
	require.Equal(t, map[string]string{
		"end": "State", "finish": "State", "start": "State", "Start": "", "makeState": "", "each": "list",
	}, got)
}

func TestNames_outsideTheirFile(t *testing.T) {
	t.Parallel()
	var n names
	for path, text := range map[string]string{
		"a.go": "package p\nfunc note() { keepNote() }\nfunc keepNote() {}\nfunc main() {}\nfunc Note() {}",
		"b.go": "package p\nfunc readAll() { note() }",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		n.readFile(path, file)
	}
	n.countShares()
	require.Equal(t, share{functions: 3, oneWord: 2}, n.all, "note and readAll")
	require.Equal(t, share{functions: 1, oneWord: 1}, n.shared, "note")
	require.Equal(t, "2 of 3 (66.7 %)", n.all.String())
}
