package page

import (
	"context"
	"html/template"
	"path"
	"strings"

	"conclave/cmd/conclave/record"
	"conclave/engine/artifact"
	"conclave/engine/llm"
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
		cutText := c.cut(a.Text, p.Dir+"answer.json")
		one := answer{
			Label: a.Label, Agent: p.Agent, Step: stepID(p), Final: p == final, Text: cutText, HTML: c.markdown(cutText.Text),
			Checks: checkedOf(p), Judged: evaluationOf(p, c), Dir: p.Dir,
		}
		of := folder{part: "answer-" + a.Label, name: a.Label, dir: p.Dir}
		for _, f := range a.Files {
			one.Files = append(one.Files, fileOf(ctx, of, f, c, contents, shown))
		}
		for _, name := range a.Removed {
			one.Removed = append(one.Removed, line(name))
		}
		list = append(list, one)
	}
	return list
}

// contents reads the content of a file. A nil contents leaves it out.
type contents func(ctx context.Context, dir string, f artifact.File, limit int64) ([]byte, error)

// maxImage is the maximum size of an image in a page, in bytes.
const maxImage = 256 << 10

func fileOf(ctx context.Context, of folder, f artifact.File, c *cutter, read contents, shown shownFiles) file {
	one := file{Path: line(f.Path), Size: text.Size(f.Size), Link: line(f.Link), ID: slug("file", of.name, f.Path)}
	if problem := f.Reserved(); problem != "" {
		one.Size = "refused: " + line(problem)
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
	where := of.dir + "workspace/" + line(f.Path)
	switch uri, isImage := c.imageOf(data, f.Size); {
	case isImage:
		one.Image, one.Shown = uri, true
	case isText(data):
		one.Text, one.Shown = c.cut(string(data), where), true
		one.Text.More += int(max(0, f.Size-int64(len(data))))
		one.HTML = highlight(one.Text.Text, path.Ext(f.Path))
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

// AnswerText returns the content of ANSWER.md: the final answer of a session, or the
// reason why the session ended without one.
func AnswerText(s *record.Session) string {
	if p := s.Final(); p != nil && p.Answer != nil {
		return strings.TrimRight(clean(p.Answer.Text), "\n") + "\n"
	}
	if s.Running() {
		return "There is no decision yet. " + standing(s) + "\n"
	}
	return ended(s) + "\n"
}
