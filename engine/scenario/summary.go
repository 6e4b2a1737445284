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
// the next heading of the same or a higher level.
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
	signIn = regexp.MustCompile(`(?i)\b(log(s|ged|ging)?[ -]?in|login|sign(s|ed|ing)?[ -]?in|sign-?on|authenticat\w*|credentials?|password|account)\b`)
	// line is a line that says something of the kind by itself, such as
	// "Base URL: http://127.0.0.1:3000".
	line = regexp.MustCompile(`(?i)^\s*[-*]?\s*(\*\*)?(application type|app type|type|base ?url|url|stack|tech stack)(\*\*)?\s*:`)
	// confidential is a line that holds a secret, wherever it stands.
	confidential = regexp.MustCompile(`(?i)(password|passwort|passphrase|secret|credential|api[ _-]?key|token|user ?name|\buser\b|\blogin\b|\bpin\b)\s*(\*\*)?\s*[:=]`)
)

// SignsIn reports whether a step is about signing in, by its words.
func SignsIn(step string) bool { return signIn.MatchString(step) }

// Summary is what a step is told of the project: a pure function of prd.md and of
// whether the step signs in. It has the application's type, its addresses and its
// stack, and only then its credentials, in at most MaxSummary bytes.
func Summary(prd string, signsIn bool) string {
	var parts []string
	for _, s := range sections(prd) {
		switch {
		case secret.MatchString(s.heading):
			if signsIn {
				parts = append(parts, s.text(s.body))
			}
		case slices.ContainsFunc(about, func(r *regexp.Regexp) bool { return r.MatchString(s.heading) }):
			parts = append(parts, s.text(public(s.body, signsIn)))
		default:
			if said := facts(s.body, signsIn); said != "" {
				parts = append(parts, said)
			}
		}
	}
	return bounded(strings.Join(parts, "\n\n"), MaxSummary)
}

// sections cuts Markdown at its headings. What stands before the first one has no
// heading. Lines of fenced code are no headings.
func sections(text string) []section {
	all := []section{{}}
	fenced := false
	for l := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			fenced = !fenced
		}
		level := len(l) - len(strings.TrimLeft(l, "#"))
		if !fenced && level > 0 && level <= 6 && strings.HasPrefix(l[level:], " ") {
			all = append(all, section{level: level, heading: strings.TrimSpace(strings.Trim(l, "# \n"))})
			continue
		}
		all[len(all)-1].body += l
	}
	return all
}

func (s section) text(body string) string {
	return strings.TrimSpace(strings.Repeat("#", max(s.level, 1)) + " " + s.heading + "\n" + strings.TrimSpace(body))
}

// public leaves out the lines that hold secrets, unless the step signs in.
func public(body string, signsIn bool) string {
	if signsIn {
		return body
	}
	var kept strings.Builder
	for l := range strings.Lines(body) {
		if !confidential.MatchString(l) {
			kept.WriteString(l)
		}
	}
	return kept.String()
}

// facts are the lines of any other section that say what a step has to know.
func facts(body string, signsIn bool) string {
	var kept strings.Builder
	for l := range strings.Lines(body) {
		if line.MatchString(l) && (signsIn || !confidential.MatchString(l)) {
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
