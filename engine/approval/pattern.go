package approval

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// gap stands in the text of a command for a part that is not literal. No command has this byte.
const gap = "\x00"

// pattern is a regular expression that can be matched against texts with gaps.
type pattern struct {
	*regexp.Regexp
	program *syntax.Prog
}

// compilePattern returns nil, which every text matches, for an empty expression.
func compilePattern(expression string) *pattern {
	if expression == "" {
		return nil
	}
	p := &pattern{Regexp: regexp.MustCompile(expression)}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err == nil {
		p.program, err = syntax.Compile(parsed.Simplify())
	}
	if err != nil { // regexp has compiled it the same way
		p.program = nil
	}
	return p
}

// mayMatch reports whether a text can match with some text in its gaps, by a match that begins outside of them.
func (p *pattern) mayMatch(text string) bool {
	if p == nil || p.program == nil || !strings.Contains(text, gap) {
		return p == nil || p.MatchString(text)
	}
	r := reach{program: p.program, states: map[uint32]bool{}}
	before := rune(-1)
	for rest := text; ; {
		next, size := utf8.DecodeRuneInString(rest)
		switch {
		case rest == "":
			return r.enter(syntax.EmptyOpContext(before, -1), true)
		case next == 0:
			if r.skipAny() {
				return true
			}
			before = 0
		default:
			conditions := syntax.EmptyOpContext(before, next)
			if before == 0 { // anything may stand before the gap's end
				conditions = anywhere
			}
			if r.enter(conditions, true) {
				return true
			}
			r.step(next)
			before = next
		}
		rest = rest[size:]
	}
}

// anywhere are the conditions that can hold inside of a text.
const anywhere = syntax.EmptyBeginLine | syntax.EmptyEndLine | syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary

// reach are the instructions that a program can have reached at a place of a text.
type reach struct {
	program *syntax.Prog
	states  map[uint32]bool
}

// enter follows the instructions that consume nothing, also those of a match that begins here, and reports
// whether a match has ended.
func (r *reach) enter(conditions syntax.EmptyOp, begin bool) bool {
	before := r.states
	r.states = map[uint32]bool{}
	matched := false
	for at := range before {
		matched = r.follow(at, conditions) || matched
	}
	if begin {
		matched = r.follow(uint32(r.program.Start), conditions) || matched //nolint:gosec // an index
	}
	return matched
}

func (r *reach) follow(at uint32, conditions syntax.EmptyOp) bool {
	if r.states[at] {
		return false
	}
	r.states[at] = true
	switch i := &r.program.Inst[at]; i.Op {
	case syntax.InstMatch:
		return true
	case syntax.InstAlt, syntax.InstAltMatch:
		first := r.follow(i.Out, conditions)
		return r.follow(i.Arg, conditions) || first
	case syntax.InstCapture, syntax.InstNop:
		return r.follow(i.Out, conditions)
	case syntax.InstEmptyWidth:
		return syntax.EmptyOp(i.Arg)&^conditions == 0 && r.follow(i.Out, conditions)
	}
	return false
}

// step consumes a character.
func (r *reach) step(next rune) {
	before := r.states
	r.states = map[uint32]bool{}
	for at := range before {
		if i := &r.program.Inst[at]; isRune(i) && i.MatchRune(next) {
			r.states[i.Out] = true
		}
	}
}

// skipAny consumes any text. It reports whether a match can end in it or at the end of the text.
func (r *reach) skipAny() bool {
	for grown := true; grown; {
		count := len(r.states)
		if r.enter(anywhere|syntax.EmptyEndText, false) {
			return true
		}
		for at := range r.states {
			if i := &r.program.Inst[at]; isRune(i) {
				r.states[i.Out] = true
			}
		}
		grown = len(r.states) > count
	}
	return false
}

func isRune(i *syntax.Inst) bool {
	switch i.Op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}
