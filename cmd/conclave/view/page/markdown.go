package page

import (
	"bytes"
	"html/template"
	"regexp"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"conclave/engine/text"
)

// converter renders Markdown and drops its raw HTML.
var converter = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList))

// policy admits the elements of Markdown except images. The only attributes are those of
// links and the start of a numbered list.
var policy = newPolicy()

func newPolicy() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "h3", "h4", "h5", "h6", "em", "strong", "del", "code", "pre", "blockquote", "ul", "li",
		"table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("start").Matching(regexp.MustCompile(`^[0-9]{1,9}$`)).OnElements("ol")
	p.AllowElements("ol")
	p.AllowURLSchemes("https", "http", "mailto")
	p.AllowAttrs("href").OnElements("a")
	p.RequireParseableURLs(true)
	p.RequireNoReferrerOnLinks(true)
	p.RequireNoFollowOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true)
	return p
}

// headings matches the headings of an answer. The page itself uses the first two levels.
var headings = regexp.MustCompile(`(</?)h([1-4])>`)

// markdownHTML renders an untrusted text. Images are replaced by their descriptions.
func markdownHTML(source string) template.HTML {
	var out bytes.Buffer
	if err := converter.Convert([]byte(cleanText(text.WithoutThoughts(source))), &out); err != nil {
		return template.HTML("<pre>" + template.HTMLEscapeString(source) + "</pre>")
	}
	lowered := headings.ReplaceAllFunc(inWords(out.Bytes()), func(tag []byte) []byte {
		at := bytes.LastIndexByte(tag, 'h') + 1
		tag = bytes.Clone(tag)
		tag[at] += 2
		return tag
	})
	return template.HTML(policy.SanitizeBytes(lowered))
}

// images matches the images in the converter's output.
var images = regexp.MustCompile(`<img [^>]*?alt="([^"]*)"[^>]*>`)

// boxes matches the boxes of a task list in the converter's output.
var boxes = regexp.MustCompile(`<input [^>]*type="checkbox"[^>]*>`)

// inWords replaces images by their descriptions in brackets and the boxes of a task list by characters.
func inWords(rendered []byte) []byte {
	rendered = images.ReplaceAll(rendered, []byte("[image: $1]"))
	return boxes.ReplaceAllFunc(rendered, func(box []byte) []byte {
		if bytes.Contains(box, []byte("checked=")) {
			return []byte("☑")
		}
		return []byte("☐")
	})
}
