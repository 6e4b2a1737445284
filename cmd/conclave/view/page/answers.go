package page

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"path"
	"regexp"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/step"
	"conclave/engine/text"
)

// answer is an answer with its files.
type answer struct {
	Label   string
	Agent   string
	Step    string // ID of the step's part of the page
	Final   bool   // the answer of the session
	HTML    template.HTML
	Text    cut
	Files   []file
	Removed []string
	Checks  []checked
	Judged  *evaluation // nil without an evaluation
	Dir     string
	Terse   bool          // the page has room only for the beginning
	Drawn   template.HTML // HTML of an earlier drawing
}

// folder is a place with files: an answer, or a visit of a pipeline's step.
type folder struct {
	part string // ID of the part of the page
	name string
	dir  string // relative to the session or the run
}

// shownFiles maps hashes of contents in the page to the files that show them.
type shownFiles map[string]shownFile

type shownFile struct {
	id string // ID of the content
	of folder
}

// file is a file of an answer or a visit.
type file struct {
	Path, Size string
	Link       string // target of a symbolic link
	ID         string // ID of the part with the content
	Source     string // where a live page loads it from
	Same       string // ID of the same content elsewhere in the page
	In         string // ID of the part with that content
	Where      string // name of the answer or visit with that content
	HTML       template.HTML
	Text       cut
	Image      template.URL
	Shown      bool // the content is in the page
}

// checked is a check of an answer, as the data of a template.
type checked struct {
	Name, Outcome, Class, Detail, Output string
	Seconds                              string
}

// answersOf prepares the answers for the page, ordered by their ends with the final one first.
func answersOf(ctx context.Context, s *record.Session, c *cutter, contents contents) []answer {
	final := s.Final()
	all := s.Answers()
	if final != nil && final.Answer != nil {
		for i, p := range all {
			if p == final {
				copy(all[1:i+1], all[:i])
				all[0] = final
			}
		}
	}
	shown := shownFiles{}
	var list []answer
	for _, p := range all {
		a := p.Answer
		cutText := c.cutText(a.Text, p.Dir+"answer.json")
		one := answer{
			Label: a.Label, Agent: p.Agent, Step: stepID(p), Final: p == final, Text: cutText, HTML: c.renderMarkdown(cutText.Text),
			Checks: checkedOf(p), Judged: evaluationOf(p, c), Dir: p.Dir,
		}
		of := folder{part: "answer-" + a.Label, name: a.Label, dir: p.Dir}
		for _, f := range a.Files {
			one.Files = append(one.Files, fileOf(ctx, of, f, c, contents, shown))
		}
		one.Removed = append(one.Removed, text.Each(a.Removed, cleanLine)...)
		list = append(list, one)
	}
	return list
}

// contents reads the content of a file. A nil contents leaves it out.
type contents func(ctx context.Context, dir string, f artifact.File, limit int64) ([]byte, error)

// maxImage is the maximum size of an image in a page, in bytes.
const maxImage = 256 << 10

// fileOf shows a content once in a page: later files with the same hash link to the first.
func fileOf(ctx context.Context, of folder, f artifact.File, c *cutter, read contents, shown shownFiles) file {
	one := file{Path: cleanLine(f.Path), Size: text.Size(f.Size), Link: cleanLine(f.Link), ID: attributeID("file", of.name, f.Path)}
	if problem := f.Reserved(); problem != "" {
		one.Size = "refused: " + cleanLine(problem)
		return one
	}
	if f.Link != "" || read == nil {
		return one
	}
	if at, known := shown[f.SHA256]; known && f.SHA256 != "" {
		one.Same, one.In, one.Where = at.id, at.of.part, at.of.name
		return one
	}
	data, err := read(ctx, of.dir, f, max(maxImage, int64(c.limit))+1)
	if err != nil {
		one.Text = cut{Path: of.dir + "workspace/" + f.Path, More: int(f.Size)}
		return one
	}
	where := of.dir + "workspace/" + cleanLine(f.Path)
	switch uri, isImage := c.imageOf(data, f.Size); {
	case isImage:
		one.Image, one.Shown = uri, true
	case isText(data):
		one.Text, one.Shown = c.cutText(string(data), where), true
		one.Text.More += int(max(0, f.Size-int64(len(data))))
		one.HTML = highlightSource(one.Text.Text, path.Ext(f.Path))
	default:
		one.Text = cut{Path: where, More: int(f.Size)}
	}
	if one.Shown && f.SHA256 != "" {
		shown[f.SHA256] = shownFile{one.ID, of}
	}
	return one
}

// imageOf returns the data URI of a complete image that is small enough.
func (c *cutter) imageOf(data []byte, size int64) (template.URL, bool) {
	if size > maxImage || int64(len(data)) != size || (llm.Image{Data: data}).Format() == "" {
		return "", false
	}
	return c.dataURI(data)
}

// formatAnswer returns the text of an answer, and why nothing was run, unless that is empty.
func formatAnswer(text, noShell string) string {
	text = strings.TrimRight(cleanText(text), "\n") + "\n"
	if noShell != "" {
		text += "\nNothing was run, no test and no program: the agents could not run commands: " + cleanLine(noShell) + "\n"
	}
	return text
}

// AnswerText returns the content of ANSWER.md: the final answer of a session, or the
// reason why the session ended without one.
func AnswerText(s *record.Session) string {
	if p := s.Final(); p != nil && p.Answer != nil {
		return formatAnswer(p.Answer.Text, s.State.NoShell)
	}
	if s.Running() {
		return "There is no decision yet. " + describeProgress(s) + "\n"
	}
	return explainNoWinner(s) + "\n"
}

// cleanText removes characters that could reorder or hide text.
func cleanText(s string) string { return text.Terminal(s) }

// cleanLine is like clean, but returns a single line.
func cleanLine(s string) string { return cli.Line(s) }

// briefLine is like line, but truncates the result to n characters.
func briefLine(s string, n int) string { return text.TruncateRunes(cleanLine(s), n) }

// timeElement returns a machine-readable time. The script shows it in the reader's time zone.
func timeElement(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s UTC</time>`, t.Format(time.RFC3339Nano), t.Format("2006-01-02 15:04:05")))
}

// agoElement is like timeElement, but the script shows how long ago the time is.
func agoElement(t time.Time) template.HTML {
	return template.HTML(strings.Replace(string(timeElement(t)), "<time ", `<time class="ago" `, 1))
}

// formatDuration formats a short duration with its unit and a long one as a clock.
func formatDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return cli.Clock(d)
}

func formatPrice(u llm.Usage) string {
	switch {
	case u.ModelCalls == 0:
		return "–"
	case u.TotalUSD == nil && u.KnownUSD > 0:
		return fmt.Sprintf("≥ $%.4f", u.KnownUSD)
	case u.TotalUSD == nil:
		return "price unknown"
	case *u.TotalUSD == 0:
		return "$0"
	}
	return fmt.Sprintf("$%.4f", *u.TotalUSD)
}

func formatTokens(u llm.Usage) string {
	if u.ModelCalls == 0 {
		return "–"
	}
	in := cli.Count(u.InputTokens)
	if u.CachedInputTokens > 0 {
		in += " (" + cli.Count(u.CachedInputTokens) + " cached)"
	}
	return in + " → " + cli.Count(u.OutputTokens)
}

// cssPercent formats a horizontal coordinate as a percentage of the drawing's width.
func cssPercent(share float64) string { return fmt.Sprintf("%.3f%%", 100*min(max(share, 0), 1)) }

// labelPattern matches the labels of answers and the names of steps in sentences that the page itself
// writes.
var labelPattern = regexp.MustCompile(`\bagent[1-9][0-9]*\.(?:[1-9][0-9]*|final)\b`)

func linkLabels(sentence string) template.HTML {
	escaped := html.EscapeString(cleanText(sentence))
	return template.HTML(labelPattern.ReplaceAllString(escaped, `<a href="#answer-$0">$0</a>`))
}

// joinWords lists words: "a", "a and b", "a, b and c".
func joinWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// attributeID makes an attribute ID of letters, digits, '.', '_' and '-'.
func attributeID(words ...string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, strings.Join(words, "-"))
}

// cutter truncates long texts.
type cutter struct {
	limit  int // longest text, in bytes
	images int // bytes of images for which there is room

	rendered map[string]template.HTML // Markdown that was rendered before; nil to keep none
}

// renderMarkdown renders a text and caches the result.
func (c *cutter) renderMarkdown(source string) template.HTML {
	if c.rendered == nil {
		return markdownHTML(source)
	}
	html, known := c.rendered[source]
	if !known {
		html = markdownHTML(source)
		c.rendered[source] = html
	}
	return html
}

// cut is a text, or its beginning with the path of the file that contains all of it.
type cut struct {
	Text string
	More int // bytes left out
	Path string
}

func (c *cutter) cutText(s, path string) cut {
	s = cleanText(s)
	head, _ := text.Head(s, c.limit)
	return cut{Text: head, More: len(s) - len(head), Path: path}
}

// entry is a block of a transcript, as the data of a template.
type entry struct {
	record.Block
	Parts []part
}

// part is a part of a block, as the data of a template.
type part struct {
	record.Part
	Text  cut
	Fold  bool         // closed at first, because it is long or seldom matters
	Image template.URL // address of a checked image; empty for a text
}

// entriesOf prepares a transcript for the page. Path names the file with the full text.
func entriesOf(t step.Transcript, c *cutter, path string) []entry {
	var entries []entry
	for _, b := range record.Blocks(t.Lines) {
		e := entry{Block: b}
		for _, p := range b.Parts {
			e.Parts = append(e.Parts, c.layOutPart(p, path))
		}
		entries = append(entries, e)
	}
	return entries
}

func (c *cutter) layOutPart(p record.Part, path string) part {
	one := part{Part: p}
	written := p.Text
	switch p.Kind {
	case record.Reasoning:
		one.Fold = true
	case record.Prompt:
		one.Fold = len(written) > 600
	case record.Result:
		one.Fold = len(written) > 400
	case record.Call:
		one.Fold, written = len(written) > 400, indentJSON(written)
	case record.Image:
		one.Image, _ = c.dataURI(p.Image)
	}
	one.Text = c.cutText(written, path)
	return one
}

// indentJSON indents JSON and returns any other text unchanged.
func indentJSON(arguments string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(arguments), "", "  ") != nil {
		return arguments
	}
	return b.String()
}

// dataURI returns the data URI of an image if its format is known and it fits into the page.
func (c *cutter) dataURI(data []byte) (template.URL, bool) {
	i := llm.Image{Data: data}
	if c.images < len(data) || i.CheckWhole() != nil {
		return "", false
	}
	c.images -= len(data)
	return template.URL("data:" + i.Format() + ";base64," + base64.StdEncoding.EncodeToString(data)), true
}
