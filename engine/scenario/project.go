package scenario

import (
	"fmt"
	"regexp"
	"strings"

	"conclave/engine/text"
)

// maxSummary bounds the text of prd.md in a step's first request, in bytes.
const maxSummary = 4 << 10

// minSecret is the length, in bytes, from which a credential is redacted. Ordinary text
// contains shorter ones.
const minSecret = 4

// topic is the part of prd.md that a section belongs to.
type topic int

const (
	other       topic = iota // sections for people only
	application              // sections for every step
	credentials              // the section for steps that ask for it; its values are redacted
)

// topics maps the headings of prd.md that agents read, in lower case, to topics. A section's
// subsections belong to its topic.
var topics = map[string]topic{
	"application type": application, "type": application,
	"base url": application, "url": application, "ports": application, "services": application, "services under test": application, "environment": application,
	"tech stack": application, "stack": application,
	"credentials": credentials,
}

func topicOf(heading string) topic { return topics[strings.ToLower(strings.Trim(heading, " :*"))] }

// Project is a parsed prd.md.
type Project struct {
	about       string
	credentials string   // the sections as they stand
	values      []string // values declared in them

	// Unread is a sentence about a section that looks as if it had credentials but is read by no
	// step, with the lines to write; empty without one.
	Unread string
}

// ofAccounts matches headings under which people write credentials for other programs.
var ofAccounts = regexp.MustCompile(`(?i)^\W*(auth|authentication|login|log in|sign[ -]?in|(test )?(users?|accounts?))\W*$`)

// ParseProject reads a prd.md. It refuses credentials that it could not redact: a line of a
// section Credentials that is not "- name: value", and an address with a user or a password
// in a section that every step reads.
func ParseProject(prd string) (Project, error) {
	var p Project
	var about, secret []string
	var open [7]topic // topics of the newest headings, by level
	for _, s := range splitSections(prd) {
		topic := topicOf(s.heading)
		if s.level > 0 {
			if parent := open[s.level-1]; parent == credentials || topic == other {
				topic = parent
			}
		}
		for level := s.level; level < len(open); level++ {
			open[level] = topic
		}
		switch topic {
		case application:
			if userinfo.MatchString(s.body) {
				return p, fmt.Errorf("prd.md, line %d: an address below %q contains a user or password: declare it in the section Credentials, as \"- address: URL\"", s.line, s.heading)
			}
			about = append(about, s.compactText())
		case credentials:
			values, err := declaredValues(s)
			if err != nil {
				return p, err
			}
			p.values = append(p.values, values...)
			secret = append(secret, s.compactText())
		case other:
			if ofAccounts.MatchString(s.heading) && p.Unread == "" {
				p.Unread = fmt.Sprintf("prd.md, line %d: no step reads the section %q: call it Credentials, with a line such as \"- user: ada\" for each value, and begin the file of the step that signs in with the three lines ---, credentials: true, ---", s.line, s.heading)
			}
		}
	}
	p.about, p.credentials = strings.Join(about, "\n\n"), strings.Join(secret, "\n\n")
	return p, nil
}

func (s section) compactText() string {
	s.body = strings.TrimSpace(s.body)
	return strings.TrimSpace(s.withHeading())
}

// userinfo matches the beginning of an address that names a user.
var userinfo = regexp.MustCompile("[A-Za-z][A-Za-z0-9+.-]*://[^\\s/?#@\"'`<>]+@")

// entry matches a declared credential. A value with spaces is quoted and may be followed by a
// remark. Errors do not repeat a line, because it could be a secret.
var entry = regexp.MustCompile("^(?:[-*]\\s+)?(?:\\*\\*)?[^:*]+(?:\\*\\*)?:(?:\\*\\*)?\\s*(?:`([^`]+)`.*|\"([^\"]+)\".*|'([^']+)'.*|([^\\s`\"']\\S*))$")

func declaredValues(s section) ([]string, error) {
	var values []string
	number := s.line
	for line := range strings.Lines(s.body) {
		number++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		m := entry.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("prd.md, line %d: a line of the section Credentials is \"- name: value\", with a value that has spaces in quotes", number)
		}
		values = append(values, strings.Join(m[1:], ""))
	}
	return values, nil
}

// Summary returns the description of the project for a step, at most maxSummary
// bytes: the credentials if the step asks for them, and the application.
func (p Project) Summary(withCredentials bool) string {
	const mark = "\n[cut]"
	parts, room := []string{}, maxSummary
	if withCredentials && p.credentials != "" {
		parts = append(parts, p.credentials)
		room -= len(p.credentials) + len("\n\n")
	}
	about, cut := text.Head(p.about, max(0, room))
	if cut {
		about, _ = text.Head(p.about, max(0, room-len(mark)))
		about += mark
	}
	if about != "" {
		parts = append([]string{about}, parts...)
	}
	return strings.Join(parts, "\n\n")
}

// Secrets returns the declared credentials to redact. For an address they include its user,
// its password, and both as encoded in a request's header.
func (p Project) Secrets() []string {
	var secrets []string
	for _, value := range p.values {
		for _, secret := range append([]string{value}, text.UserinfoOf(value)...) {
			if len(secret) >= minSecret {
				secrets = append(secrets, secret)
			}
		}
	}
	return secrets
}

// AsksForCredentials reports whether the front matter of a step's file has
// "credentials: true". Credentials themselves are refused there: the file is part
// of the workflow's history.
func AsksForCredentials(file string) (bool, error) {
	for _, s := range splitSections(file) {
		if topicOf(s.heading) == credentials {
			return false, fmt.Errorf("the section %s belongs in prd.md; a step reads it if its front matter has \"credentials: true\"", s.heading)
		}
	}
	asks := false
	for line := range strings.Lines(frontMatter(file)) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) != "credentials" {
			continue
		}
		switch strings.TrimSpace(value) {
		case "true":
			asks = true
		case "false":
			asks = false
		default:
			return false, fmt.Errorf("credentials in the front matter of a step is true or false; the values belong in the section Credentials of prd.md")
		}
	}
	return asks, nil
}

// frontMatter returns the lines between "---" and "---" at the beginning of a file.
func frontMatter(file string) string {
	rest, found := strings.CutPrefix(normalizeMarkdown(file), "---\n")
	matter, _, closed := strings.Cut("\n"+rest, "\n---\n")
	if !found || !closed {
		return ""
	}
	return strings.TrimPrefix(matter, "\n")
}
