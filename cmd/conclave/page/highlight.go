package page

import (
	"html"
	"html/template"
	"regexp"
	"strings"
)

// The patterns match the comments, strings, numbers and words of most languages, one for
// each style of comments.
var (
	slashes = regexp.MustCompile("(?s)(//[^\n]*|/\\*.*?\\*/)|(\"(?:[^\"\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\n]|\\\\.)*'|`[^`]*`)|\\b([0-9][0-9A-Za-z_.]*)\\b|\\b([A-Za-z_]+)\\b")
	hashes  = regexp.MustCompile("(?s)(#[^\n]*)|(\"(?:[^\"\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\n]|\\\\.)*')|\\b([0-9][0-9A-Za-z_.]*)\\b|\\b([A-Za-z_]+)\\b")
)

// languages maps the extensions of source files to the pattern for their tokens.
var languages = func() map[string]*regexp.Regexp {
	m := map[string]*regexp.Regexp{}
	for _, e := range strings.Fields(".go .js .ts .jsx .tsx .c .h .cc .cpp .java .rs .kt .swift .css .proto .json .php .scala .cs") {
		m[e] = slashes
	}
	for _, e := range strings.Fields(".py .sh .bash .rb .yaml .yml .toml .pl .r .mk .tf") {
		m[e] = hashes
	}
	return m
}()

// keywords are the most common keywords of the languages.
var keywords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`and as async await break case catch chan class const continue def default defer del do elif else
		end enum except export extends false final finally fn for from func function go goto if impl implements import in interface
		is lambda let local map match mod mut new nil none None not null or package pass private protected pub public raise range
		return self select static struct super switch then this throw trait true True False try type use var void while with yield`) {
		m[w] = true
	}
	return m
}()

// highlight escapes source text and marks its tokens.
func highlight(source, extension string) template.HTML {
	pattern := languages[extension]
	if pattern == nil {
		return template.HTML(html.EscapeString(source))
	}
	var b strings.Builder
	at := 0
	for _, m := range pattern.FindAllStringSubmatchIndex(source, -1) {
		class := ""
		switch word := source[m[0]:m[1]]; {
		case m[2] >= 0:
			class = "k-comment"
		case m[4] >= 0:
			class = "k-string"
		case m[6] >= 0:
			class = "k-number"
		case keywords[word]:
			class = "k-word"
		default:
			continue
		}
		b.WriteString(html.EscapeString(source[at:m[0]]))
		b.WriteString(`<span class="` + class + `">` + html.EscapeString(source[m[0]:m[1]]) + `</span>`)
		at = m[1]
	}
	b.WriteString(html.EscapeString(source[at:]))
	return template.HTML(b.String())
}
