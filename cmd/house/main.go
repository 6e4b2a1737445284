// Command house measures this repository's Go code.
//
//	go run ./cmd/house size       a Markdown table of sizes by package, and the ratio of test lines
//	go run ./cmd/house english    the comment lines that count against plain English; fails above the limit
//	go run ./cmd/house rooms      the packages and types that are too large, without a doc.go or missing on their floor's map, and one-word names above their share; fails if any
//	go run ./cmd/house draw SEED  fifty paragraphs of comments drawn at random
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxRiddles bounds the number of comment lines in production code that match riddle.
const maxRiddles = 20

// maxFiles bounds the production files of a package. maxMethods bounds the methods of a type;
// functions whose first parameter has that type count as its methods.
const maxFiles, maxMethods = 25, 60

// floors are directories whose doc.go must name every package below them.
var floors = []string{"engine", "activities", "workflows", "worker", "cmd/conclave"}

// riddle matches phrases that are used in place of a noun.
var riddle = regexp.MustCompile(`(?i)\b(what|whatever|that which|(is|are) (none|nothing)|makes? of)\b`)

// room holds the counts of one package directory.
type room struct {
	dir                     string
	files, lines, testLines int
	statements, exported    int
	templateLines           int
	functions               []function
	methods                 map[string]int // number of methods, by type
	names                   names
}

// function is the length of a function in lines.
type function struct {
	name  string
	lines int
}

// comment is one comment line in a production file.
type comment struct {
	place, text string
	begins      bool // the line begins a paragraph
}

func main() {
	command := "size"
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	rooms, comments, err := measureModule(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	switch command {
	case "size":
		printSizes(rooms)
	case "english":
		os.Exit(printRiddles(comments))
	case "rooms":
		os.Exit(printFaults(rooms))
	case "draw":
		seed := uint64(1)
		if len(os.Args) > 2 {
			seed, err = strconv.ParseUint(os.Args[2], 10, 64)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "house: the seed is a whole number:", err)
			os.Exit(1)
		}
		drawComments(comments, seed)
	default:
		fmt.Fprintf(os.Stderr, "house: unknown command %q; one of size, english, rooms, draw\n", command)
		os.Exit(1)
	}
}

// measureModule reads every Go file and template of the module at root, except in hidden
// directories and testdata.
func measureModule(root string) ([]*room, []comment, error) {
	byDir := map[string]*room{}
	var comments []comment
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if file != root && (strings.HasPrefix(name, ".") || name == "testdata" || fileExists(file, "go.mod")) {
				return filepath.SkipDir
			}
			return nil
		case filepath.Ext(name) != ".go" && filepath.Ext(name) != ".tmpl":
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(file))
		if byDir[dir] == nil {
			byDir[dir] = &room{dir: dir, methods: map[string]int{}}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		lines := bytes.Count(data, []byte("\n"))
		switch r := byDir[dir]; {
		case strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, ".go") && isTest(dir):
			r.testLines += lines
		case strings.HasSuffix(name, ".tmpl"):
			r.templateLines += lines
		default:
			r.files, r.lines = r.files+1, r.lines+lines
			found, err := r.addFile(file, data)
			comments = append(comments, found...)
			return err
		}
		return nil
	})
	var rooms []*room
	for _, r := range byDir {
		if r.lines+r.testLines+r.templateLines > 0 {
			rooms = append(rooms, r)
		}
	}
	slices.SortFunc(rooms, func(a, b *room) int { return strings.Compare(a.dir, b.dir) })
	return rooms, comments, err
}

// isTest reports whether a package is only useful to tests: its name or that of a directory above
// it ends in test, like net/http/httptest, or is e2e or bench.
func isTest(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool {
		return strings.HasSuffix(name, "test") || name == "e2e" || name == "bench"
	})
}

func fileExists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func (r *room) addFile(name string, data []byte) ([]comment, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, data, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(ast.Stmt); ok {
			if _, block := s.(*ast.BlockStmt); !block {
				r.statements++
			}
		}
		return true
	})
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			length := fset.Position(d.End()).Line - fset.Position(d.Pos()).Line + 1
			r.functions = append(r.functions, function{r.dir + "." + d.Name.Name, length})
			if t := methodOf(d); t != "" {
				r.methods[t]++
			}
			if d.Recv == nil && d.Name.IsExported() {
				r.exported++
			}
		case *ast.GenDecl:
			r.exported += exportedNames(d)
		}
	}
	r.names.readFile(name, file)
	var found []comment
	for _, group := range file.Comments {
		begins := true
		for _, c := range group.List {
			first := fset.Position(c.Pos()).Line
			for i, line := range strings.Split(c.Text, "\n") {
				blank := strings.Trim(line, "/ ") == ""
				found = append(found, comment{fmt.Sprintf("%s:%d", filepath.ToSlash(name), first+i), line, begins && !blank})
				begins = blank
			}
		}
	}
	return found, nil
}

// methodOf returns the name of the type of d's receiver, or else of its first parameter; empty if
// that is no type of the package.
func methodOf(d *ast.FuncDecl) string {
	fields := d.Recv
	if fields == nil {
		fields = d.Type.Params
	}
	if len(fields.List) == 0 {
		return ""
	}
	t := fields.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch generic := t.(type) {
	case *ast.IndexExpr:
		t = generic.X
	case *ast.IndexListExpr:
		t = generic.X
	}
	name, ok := t.(*ast.Ident)
	if !ok || types.Universe.Lookup(name.Name) != nil {
		return ""
	}
	return name.Name
}

func exportedNames(d *ast.GenDecl) int {
	n := 0
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				n++
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() {
					n++
				}
			}
		}
	}
	return n
}

func printSizes(rooms []*room) {
	out := bufio.NewWriter(os.Stdout)
	defer func() { _ = out.Flush() }()
	fmt.Fprintln(out, "| package | files | lines | test lines | statements | template lines | exported names | p90 function | longest function | largest type | one-word names | used outside their file |")
	fmt.Fprintln(out, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	whole := &room{dir: "**whole**", methods: map[string]int{}}
	for _, r := range rooms {
		r.names.countShares()
		r.printRow(out)
		whole.files += r.files
		whole.lines += r.lines
		whole.testLines += r.testLines
		whole.statements += r.statements
		whole.templateLines += r.templateLines
		whole.exported += r.exported
		whole.functions = append(whole.functions, r.functions...)
		whole.names.addNames(r.names)
		for t, n := range r.methods {
			whole.methods[r.dir+"."+t] = n
		}
	}
	whole.printRow(out)
	fmt.Fprintf(out, "\n%.3f test lines per production line. Test lines are those of _test.go files and of packages that\n"+
		"only tests import; files of testdata and templates are not counted.\n", float64(whole.testLines)/float64(whole.lines))
}

func (r *room) printRow(out *bufio.Writer) {
	slices.SortFunc(r.functions, func(a, b function) int { return a.lines - b.lines })
	p90, longest := 0, ""
	if n := len(r.functions); n > 0 {
		p90 = r.functions[n*9/10].lines
		last := r.functions[n-1]
		longest = fmt.Sprintf("%d %s", last.lines, last.name[strings.LastIndex(last.name, ".")+1:])
	}
	fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %d | %d | %d | %s | %s | %s | %s |\n", r.dir, r.files, r.lines, r.testLines,
		r.statements, r.templateLines, r.exported, p90, longest, r.largestType(), r.names.all, r.names.shared)
}

func (r *room) largestType() string {
	largest := ""
	for _, t := range slices.Sorted(maps.Keys(r.methods)) {
		if largest == "" || r.methods[t] > r.methods[largest] {
			largest = t
		}
	}
	if largest == "" {
		return ""
	}
	return fmt.Sprintf("%d %s", r.methods[largest], largest[strings.LastIndex(largest, ".")+1:])
}

// printRiddles prints the matching lines and returns the exit code.
func printRiddles(comments []comment) int {
	n := 0
	for _, c := range comments {
		if riddle.MatchString(c.text) {
			n++
			fmt.Printf("%s: %s\n", c.place, c.text)
		}
	}
	fmt.Printf("%d comment lines with \"what\", \"that which\", \"is none\" or \"makes of\"; at most %d\n", n, maxRiddles)
	if n > maxRiddles {
		return 1
	}
	return 0
}

// printFaults prints the packages that exceed a limit or are missing in the doc.go of their floor,
// and returns the exit code.
func printFaults(rooms []*room) int {
	code := 0
	fault := func(format string, args ...any) {
		fmt.Printf(format+"\n", args...)
		code = 1
	}
	var whole names
	plans := map[string]string{}
	for _, floor := range floors {
		data, err := os.ReadFile(filepath.Join(floor, "doc.go"))
		if err != nil {
			fault("%v", err)
		}
		plans[floor] = string(data)
	}
	for _, r := range rooms {
		if r.files > maxFiles {
			fault("%s has %d production files, at most %d are accepted: divide the package", r.dir, r.files, maxFiles)
		}
		for _, t := range slices.Sorted(maps.Keys(r.methods)) {
			if r.methods[t] > maxMethods {
				fault("%s.%s has %d methods, at most %d are accepted: part it into types with fields and rules of their own", r.dir, t, r.methods[t], maxMethods)
			}
		}
		r.names.countShares()
		whole.addNames(r.names)
		if r.files > 0 && !fileExists(r.dir, "doc.go") && !fileExists(r.dir, "main.go") {
			fault("%s has no doc.go", r.dir)
		}
		for _, floor := range floors {
			name := regexp.MustCompile(`\b` + path.Base(r.dir) + `\b`)
			if r.files+r.testLines > 0 && strings.HasPrefix(r.dir, floor+"/") && !name.MatchString(plans[floor]) {
				fault("%s/doc.go does not name %s", floor, r.dir)
			}
		}
	}
	if whole.all.oneWordPercent() > maxOneWord || whole.shared.oneWordPercent() > maxSharedOneWord {
		fault("one-word names: %s of the unexported functions, %s of those used outside their file; at most %d %% and %d %% are accepted: name the verb and its object",
			whole.all, whole.shared, maxOneWord, maxSharedOneWord)
	}
	return code
}

// drawComments prints fifty random paragraphs of comments, chosen by seed.
func drawComments(comments []comment, seed uint64) {
	var first []int
	for i, c := range comments {
		if c.begins {
			first = append(first, i)
		}
	}
	r := rand.New(rand.NewPCG(seed, seed))
	for _, n := range r.Perm(len(first))[:min(50, len(first))] {
		c := comments[first[n]]
		fmt.Printf("%s: %s", c.place, strings.TrimSpace(c.text))
		for _, next := range comments[first[n]+1:] {
			text := strings.Trim(next.text, "/ \t")
			if next.begins || text == "" {
				break
			}
			fmt.Print(" " + text)
		}
		fmt.Println()
	}
}
