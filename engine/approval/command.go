package approval

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command is one command that a command line names. Its words are joined with spaces.
type command struct {
	text     string
	base     string // text with the base name of the program
	assigned string // text after the assignments before it
}

// commandLine is everything that a command line names.
type commandLine struct {
	commands []command
	unclear  bool // a word that names a program is not literal, or the line cannot be read
	altered  bool // it changes where programs or their libraries are found
}

// maxNested bounds how deep command lines are quoted in others.
const maxNested = 8

func parseCommand(line string) commandLine {
	var l commandLine
	l.readScript(line, 0)
	return l
}

// readScript adds the commands of a shell script.
func (l *commandLine) readScript(script string, depth int) {
	if strings.Contains(script, gap) || depth > maxNested {
		l.unclear = true
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil { // a shell runs the lines before the fault
		l.unclear = true
		return
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Assign:
			l.altered = l.altered || n.Name != nil && loaderVariable.MatchString(n.Name.Value)
		case *syntax.Stmt:
			if call, ok := n.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 {
				l.readCall(call, n.Redirs, depth)
			}
		}
		return true
	})
}

// loaderVariable matches variables that change the programs that words name, or their libraries.
var loaderVariable = regexp.MustCompile(`^(PATH|LD_.*|DYLD_.*|BASH_ENV|ENV|IFS|SHELLOPTS|PROMPT_COMMAND)$`)

func (l *commandLine) readCall(call *syntax.CallExpr, redirects []*syntax.Redirect, depth int) {
	var assigned, words []string
	for _, a := range call.Assigns {
		assigned = append(assigned, a.Name.Value+"="+wordText(a.Value))
	}
	for _, w := range call.Args {
		words = append(words, wordText(w))
	}
	input := ""
	for _, r := range redirects {
		switch {
		case r.Hdoc != nil:
			input += wordText(r.Hdoc)
		case r.Op == syntax.WordHdoc:
			input += wordText(r.Word)
		}
	}
	l.readWords(words, assigned, input, depth)
}

// readWords adds a command of words, and the commands that it runs itself.
func (l *commandLine) readWords(words, assigned []string, input string, depth int) {
	if len(words) == 0 {
		return
	}
	if strings.Contains(words[0], gap) || words[0] == "" || depth > maxNested {
		l.unclear = true
		return
	}
	text := strings.Join(words, " ")
	name := path.Base(words[0])
	l.commands = append(l.commands, command{
		text: text, base: strings.Join(append([]string{name}, words[1:]...), " "), assigned: strings.Join(append(slices.Clone(assigned), text), " "),
	})
	rest := words[1:]
	switch {
	case slices.Contains(shells, name):
		l.readShell(rest, input, depth+1)
	case name == "eval":
		l.readScript(strings.Join(rest, " "), depth+1)
	case name == "trap" && len(rest) > 1:
		l.readScript(rest[0], depth+1)
	case name == "alias":
		for _, a := range rest {
			if _, script, ok := strings.Cut(a, "="); ok || strings.Contains(a, gap) {
				l.readScript(script+strings.Repeat(gap, strings.Count(a[:len(a)-len(script)], gap)), depth+1)
			}
		}
	case name == "find":
		l.readFind(rest, depth+1)
	case name == "export", name == "declare", name == "typeset", name == "readonly", name == "local": // behind command or builtin
		l.altered = true
	default:
		if w, ok := wrappers[name]; ok {
			l.readWrapped(name, w, rest, input, depth+1)
		}
	}
}

var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "su"}

// readShell adds the script of `sh -c`, or that of the input of a shell without a script.
func (l *commandLine) readShell(args []string, input string, depth int) {
	script := false
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch option := len(a) > 1 && (a[0] == '-' || a[0] == '+'); {
		case strings.Contains(a, gap) && (!script || !option):
			l.unclear = true
			return
		case a == "--", a == "-":
		case option && !strings.HasPrefix(a, "--"):
			script = script || strings.Contains(a, "c")
			if strings.HasSuffix(a, "o") || strings.HasSuffix(a, "O") {
				i++
			}
		case a == "--rcfile", a == "--init-file":
			l.altered = true
			i++
		case option:
		case script:
			l.readScript(a, depth)
			return
		default:
			return // the file of a script is not seen
		}
	}
	if input == "" { // it reads commands from its input
		input = gap
	}
	l.readScript(input, depth)
}

// readFind adds the commands of find.
func (l *commandLine) readFind(args []string, depth int) {
	for i, a := range args {
		if strings.Contains(a, gap) { // it may be -exec
			l.unclear = l.unclear || a == gap
		}
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, a) {
			continue
		}
		words := args[i+1:]
		if end := slices.IndexFunc(words, func(w string) bool { return w == ";" || w == "+" }); end >= 0 {
			words = words[:end]
		}
		l.readWords(fill(words, "{}"), nil, "", depth)
	}
}

// fill puts gaps into the words of a command in the place of a text that a program replaces.
func fill(words []string, replaced string) []string {
	filled := slices.Clone(words)
	for i := range filled {
		filled[i] = strings.ReplaceAll(filled[i], replaced, gap)
	}
	return filled
}

// wrapper is a program that runs the command in its arguments.
type wrapper struct {
	valued  string // short options with a value
	flags   string // short options without one
	skip    int    // operands before the command
	assigns bool   // assignments may stand before the command
}

var wrappers = map[string]wrapper{
	"env": {valued: "uC", flags: "i0v", assigns: true}, "nohup": {}, "setsid": {flags: "cfw"}, "command": {flags: "p"}, "builtin": {},
	"exec": {valued: "a", flags: "cl"}, "nice": {valued: "n", flags: "0123456789"}, "ionice": {valued: "cnpPu", flags: "t"},
	"timeout": {valued: "ks", flags: "fpv", skip: 1}, "stdbuf": {valued: "ioe"}, "time": {valued: "fo", flags: "apqv"},
	"xargs": {valued: "aEdILnPs", flags: "0prtxo"}, "sudo": {valued: "ugCDhprTU", flags: "AbEHkKnPSils", assigns: true}, "doas": {valued: "uC", flags: "nsL"},
	"chroot": {skip: 1}, "busybox": {}, "toybox": {}, "taskset": {flags: "ac", skip: 1}, "chrt": {flags: "abfioRr", skip: 1}, "strace": {valued: "eopsabEIOPSuUX", flags: "cCdfFhikqrtTvVwxyzZ"},
	"unshare": {flags: "mUupnCiTrfc"}, "flock": {valued: "wE", flags: "sxnuoFv", skip: 1}, "watch": {valued: "nd", flags: "btegcx"}, "parallel": {valued: "jIN", flags: "0k"},
}

// plainOptions are the long options of wrappers that have no value in a word of their own.
var plainOptions = []string{"--ignore-environment", "--null", "--no-run-if-empty", "--preserve-status", "--foreground", "--verbose", "--interactive", "--fork"}

// readWrapped adds the command in the arguments of a wrapper. An option that is not known could have a value.
func (l *commandLine) readWrapped(name string, w wrapper, args []string, input string, depth int) {
	replaced := ""
	var assigned []string
	skip := w.skip
	for i := 0; i < len(args); i++ {
		a := args[i]
		variable, _, isAssignment := strings.Cut(a, "=")
		switch {
		case strings.Contains(a, gap) && (!isAssignment || strings.Contains(variable, gap) || !w.assigns && a[0] != '-'):
			l.unclear = true
			return
		case a == "--", a == "-" && name == "env":
		case name == "command" && (strings.HasPrefix(a, "-v") || strings.HasPrefix(a, "-V")):
			return // it runs nothing
		case strings.HasPrefix(a, "--"):
			if !slices.Contains(plainOptions, a) && (!isAssignment || name == "env") { // --split-string=… has a command
				l.unclear = true
				return
			}
		case len(a) > 1 && a[0] == '-':
			option, joined := w.option(a[1:])
			if option == 0 {
				l.unclear = true
				return
			}
			if option == noValue {
				continue
			}
			if joined == "" {
				i++
				joined = strings.Join(args[min(i, len(args)):min(i+1, len(args))], "")
			}
			if option == 'I' {
				replaced = joined
			}
		case w.assigns && isAssignment:
			assigned = append(assigned, a)
			l.altered = l.altered || loaderVariable.MatchString(variable)
		case skip > 0:
			skip--
		default:
			l.readInner(name, args[i:], assigned, replaced, input, depth)
			return
		}
	}
}

// noValue is the result of wrapper.option for options that have no value.
const noValue = '-'

// option returns the option with a value at the end of a group, with the text joined to it; noValue for a group
// without one, and 0 for unknown options.
func (w wrapper) option(group string) (option rune, joined string) {
	for i, o := range group {
		switch {
		case strings.ContainsRune(w.valued, o):
			return o, group[i+1:]
		case !strings.ContainsRune(w.flags, o):
			return 0, ""
		}
	}
	return noValue, ""
}

// readInner adds the command that a wrapper runs.
func (l *commandLine) readInner(name string, words, assigned []string, replaced, input string, depth int) {
	switch {
	case name == "watch", name == "parallel", name == "flock" && words[0] == "-c":
		l.readScript(strings.TrimPrefix(strings.Join(words, " "), "-c "), depth)
		return
	case replaced != "":
		words = fill(words, replaced)
	case name == "xargs":
		words = append(slices.Clone(words), gap)
	}
	l.readWords(words, assigned, input, depth)
}

// wordText returns a word as the shell expands it, with gaps for the parts that are not literal.
func wordText(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	var b strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(unquoted(p.Value, i == 0))
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				b.WriteString(gap)
				continue
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				if lit, ok := inner.(*syntax.Lit); ok {
					b.WriteString(doubleQuoted.Replace(lit.Value))
					continue
				}
				b.WriteString(gap)
			}
		default:
			b.WriteString(gap)
		}
	}
	return b.String()
}

// doubleQuoted removes the backslashes that double quotes remove.
var doubleQuoted = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`", "\\\n", "")

// unquoted removes the backslashes of a word without quotes. Wildcards, braces and a leading ~ become gaps.
func unquoted(word string, first bool) string {
	if word == "[" {
		return word
	}
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		switch c := word[i]; {
		case strings.HasPrefix(word[i:], "{}"):
			b.WriteString("{}")
			i++
		case c == '\\' && i+1 < len(word):
			if i++; word[i] != '\n' {
				b.WriteByte(word[i])
			}
		case c == '~' && first && i == 0, strings.IndexByte("*?[{}", c) >= 0:
			b.WriteString(gap)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
