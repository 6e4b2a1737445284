package scenario

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxSummary bounds what a step is told of the project, in bytes.
const MaxSummary = 4 << 10

// section is one part of a Markdown file: a heading and what is below it, up to
// the next heading.
type section struct {
	level   int
	heading string
	body    string
}

// What a step is told of prd.md, by heading: what kind of application it is and
// where, and what it is made of. How to sign in is told to steps that do.
var (
	about = []*regexp.Regexp{
		regexp.MustCompile(`(?i)^(application|app|product|project)?\s*type\b`),
		regexp.MustCompile(`(?i)\b(base )?urls?\b|\bports?\b|\bservices?( under test)?\b|\benvironments?\b`),
		regexp.MustCompile(`(?i)\b(tech(nology)?|stack)\b`),
	}
	secret = regexp.MustCompile(`(?i)\b(auth\w*|credentials?|log-?ins?|sign-?in|accounts?|users?|passwords?|secrets?|tokens?|keys?)\b`)
	signIn = regexp.MustCompile(`(?i)\b(log(s|ged|ging)?[\s-]?(back\s+)?(in|on)(to)?|sign(s|ed|ing)?[\s-]?(back\s+)?(in|on)(to)?|authenticat\w*|credentials?|pass(word|phrase|code)s?|accounts?|user\s?names?)\b`)
	// line is a line that says something of the kind by itself, such as
	// "Base URL: http://127.0.0.1:3000".
	line = regexp.MustCompile(`(?i)^\s*[-*]?\s*(\*\*)?(application type|app type|type|base ?url|url|stack|tech stack)(\*\*)?\s*:`)
	// confidential is a line that holds a secret, wherever it stands.
	confidential = regexp.MustCompile(`(?i)(password|passwort|passwd|passphrase|passcode|\bpass\b|\bpwd?\b|authorization|secret|credential|api[ _-]?key|token|user ?name|\buser\b|\blogin\b|\bpin\b)\s*(\*\*)?\s*[:=]`)
)

// SignsIn reports whether a step is about signing in, by its words.
func SignsIn(step string) bool { return signIn.MatchString(step) }

// Summary is what a step is told of the project: a pure function of prd.md and of
// whether the step signs in. It has the application's type, its addresses and its
// stack, and only then its credentials, in at most MaxSummary bytes.
func Summary(prd string, signsIn bool) string {
	var parts, credentials []string
	for _, s := range topics(prd) {
		switch {
		case s.secret:
			if signsIn {
				parts = append(parts, s.text(s.body))
				credentials = append(credentials, s.text(s.body))
			}
		case s.about:
			parts = append(parts, s.text(public(s.body, signsIn)))
		default:
			if said := facts(s.body, signsIn); said != "" {
				parts = append(parts, said)
			}
		}
	}
	whole := strings.Join(parts, "\n\n")
	if len(whole) > MaxSummary && len(credentials) > 0 {
		// Whoever is to sign in can do without the rest, and not without these.
		rest := slices.DeleteFunc(parts, func(p string) bool { return slices.Contains(credentials, p) })
		whole = strings.Join(append(credentials, rest...), "\n\n")
	}
	return bounded(whole, MaxSummary)
}

// topic is a section of prd.md and what it is about: what its heading says, or one
// that it is below.
type topic struct {
	section
	secret, about bool
}

// topics are the sections of prd.md. Its title says nothing of what is below it, and
// below a heading about signing in everything is.
func topics(prd string) []topic {
	var all, open []topic // open are the headings that the next one may be below
	titled := false
	for _, s := range sections(prd) {
		for len(open) > 0 && open[len(open)-1].level >= s.level {
			open = open[:len(open)-1]
		}
		t := topic{section: s, secret: secret.MatchString(s.heading)}
		t.about = slices.ContainsFunc(about, func(r *regexp.Regexp) bool { return r.MatchString(s.heading) })
		if len(open) > 0 {
			above := open[len(open)-1]
			t.secret, t.about = t.secret || above.secret, t.about || above.about
		}
		all = append(all, t)
		if s.level > 1 || s.level == 1 && titled {
			open = append(open, t)
		}
		titled = titled || s.level > 0
	}
	return all
}

// sections cuts Markdown at its headings. What stands before the first one has no
// heading. Lines of fenced code are no headings. A byte order mark, which some
// editors begin a file with, would hide the first one.
func sections(text string) []section {
	all := []section{{}}
	fence := "" // that the code is in; empty outside
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	for l := range strings.Lines(text) {
		fence = fenced(fence, strings.TrimSpace(l))
		level := len(l) - len(strings.TrimLeft(l, "#"))
		if fence == "" && level > 0 && level <= 6 && strings.HasPrefix(l[level:], " ") {
			all = append(all, section{level: level, heading: strings.TrimSpace(strings.Trim(l, "# \n"))})
			continue
		}
		all[len(all)-1].body += l
	}
	return all
}

// fenced is the fence that what follows a line is in: one ends with its own kind.
func fenced(fence, line string) string {
	if fence != "" {
		if strings.HasPrefix(line, fence) {
			return ""
		}
		return fence
	}
	for _, begins := range []string{"```", "~~~"} {
		if strings.HasPrefix(line, begins) {
			return begins
		}
	}
	return ""
}

func (s section) text(body string) string {
	return strings.TrimSpace(strings.Repeat("#", max(s.level, 1)) + " " + s.heading + "\n" + strings.TrimSpace(body))
}

// public leaves out the lines that hold secrets, and who signs in by an address,
// unless the step signs in.
func public(body string, signsIn bool) string {
	if signsIn {
		return body
	}
	var kept strings.Builder
	for l := range strings.Lines(withoutUser(body)) {
		if !confidential.MatchString(l) {
			kept.WriteString(l)
		}
	}
	return kept.String()
}

// facts are the lines of any other section that say what a step has to know.
func facts(body string, signsIn bool) string {
	var kept strings.Builder
	for l := range strings.Lines(public(body, signsIn)) {
		if line.MatchString(l) {
			kept.WriteString(l)
		}
	}
	return strings.TrimSpace(kept.String())
}

// bounded cuts text between characters, and says so.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const mark = "\n[cut]"
	at := most - len(mark)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + mark
}
