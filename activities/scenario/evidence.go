package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/step"
	"conclave/engine/text"
)

// maxPieces bounds the number of pieces of evidence in one attempt.
const maxPieces = 50

// recorder adds the tool record_evidence to the other tools of a step.
type recorder struct {
	others    step.Tools
	workspace string
	store     artifact.Store
	layout    artifact.Layout
	run, step string
	attempt   int // number of the step's attempt, from 1
	vault     *text.Vault
	now       func() time.Time
	began     time.Time       // time when the step began
	shared    func() []string // the directories of servers that the run's steps share; nil if they share none
	read      func(workspace, name string, most int64) (content []byte, objection string, err error)
}

func (r recorder) Tools() []llm.Tool {
	types, _ := json.Marshal(scenario.EvidenceTypes()) // encoding of strings cannot fail
	return append(slices.Clone(r.others.Tools()), llm.Tool{
		Name: scenario.EvidenceTool,
		Description: "Keep a piece of evidence of this step: a file of your workspace (path), or text (data). " +
			"It answers with the path to report. Other content under the same name is kept beside the first.",
		Parameters: json.RawMessage(`{"type":"object","required":["name","type"],"properties":{` +
			`"name":{"type":"string","description":"Letters, digits, ., _ or -, such as before, after, console or db-orders."},` +
			`"type":{"type":"string","enum":` + string(types) + `},` +
			`"path":{"type":"string","description":"A file in your workspace; required for a screenshot, video, trace or pdf."},` +
			`"data":{"type":"string","description":"The content itself, for text that is not in a file."}},"additionalProperties":false}`),
	})
}

func (r recorder) Close() error { return r.others.Close() }

func (r recorder) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	call = restoreCall(r.vault, call)
	if call.Name != scenario.EvidenceTool {
		return r.others.Run(ctx, call)
	}
	said, err := r.recordPiece(ctx, call.Arguments)
	if refusal, ok := errors.AsType[evidenceError](err); ok {
		return loop.Output{Text: "error: " + refusal.Error(), Failed: true}, nil
	}
	return loop.Output{Text: said}, err
}

// evidenceError is the reason for refusing evidence. The agent gets it as the tool's result.
type evidenceError string

func (e evidenceError) Error() string { return string(e) }

func refuseEvidence(format string, args ...any) error {
	return evidenceError(fmt.Sprintf(format, args...))
}

// piece is a piece of evidence as submitted by the agent.
type piece struct {
	Name string  `json:"name"`
	Type string  `json:"type"`
	Path *string `json:"path"`
	Data *string `json:"data"`
}

// recordPiece stores a piece of evidence, then its description, which makes the evidence valid.
func (r recorder) recordPiece(ctx context.Context, arguments string) (string, error) {
	p, err := readPiece(arguments)
	if err != nil {
		return "", err
	}
	kind, name, err := scenario.CheckEvidence(p.Name, p.Type)
	switch {
	case err != nil:
		return "", refuseEvidence("%s", err.Error())
	case r.vault.Redact(p.Name) != p.Name:
		return "", refuseEvidence("the name holds a credential: choose another one")
	case p.Path == nil && kind.NeedsFile():
		return "", refuseEvidence("a %s needs a path: give that of its file in the workspace", p.Type)
	}
	if err := r.checkNameFree(ctx, name, p.Type); err != nil {
		return "", err
	}
	content, format, note, err := r.contentToStore(p, kind)
	if err != nil {
		return "", err
	}
	described := scenario.Evidence{
		RunID: r.run, StepID: r.step, Type: p.Type, CapturedAt: artifact.Timestamp(r.now()).Format(time.RFC3339Nano),
		Size: int64(len(content)), SHA256: artifact.SumOf(content), ContentType: format.ContentType,
	}
	kept := false
	if described.Name, kept, err = r.chooseName(ctx, name, described.SHA256); err != nil {
		return "", err
	}
	described.File = described.Name + "." + format.Extension
	if !kept {
		if err := r.storePiece(ctx, described, content); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("recorded %s (%d bytes%s)", evidencePath(r.step, r.attempt, described.File), len(content), note), nil
}

func (r recorder) storePiece(ctx context.Context, e scenario.Evidence, content []byte) error {
	if err := r.store.Put(ctx, r.fileKey(e.File), bytes.NewReader(content)); err != nil {
		return err
	}
	return artifact.PutJSON(ctx, r.store, r.fileKey(e.Name+".meta.json"), e)
}

func (r recorder) fileKey(file string) string { return r.layout.Evidence(r.step, r.attempt, file) }

func readPiece(arguments string) (piece, error) {
	var p piece
	decoder := json.NewDecoder(strings.NewReader(arguments))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return p, refuseEvidence(`the arguments are not {"name": string, "type": string, "path"?: string, "data"?: string}: %s`, err.Error())
	}
	if p.Path != nil && *p.Path == "" {
		p.Path = nil
	}
	switch {
	case p.Path != nil && p.Data != nil && *p.Data != "":
		return p, refuseEvidence("both path and data are given: give one")
	case p.Path == nil && p.Data == nil:
		return p, refuseEvidence("neither path nor data is given: give one")
	}
	return p, nil
}

func (r recorder) checkNameFree(ctx context.Context, base, kind string) error {
	there, err := artifact.ReadJSON[scenario.Evidence](ctx, r.store, r.fileKey(base+".meta.json"))
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return nil
	case err == nil && there.Type != kind:
		return refuseEvidence("the name %s is already used for a %s: choose another one", base, there.Type)
	}
	return err
}

// chooseName returns the name under which to store content: base or, if that name has other content,
// base with a number. kept is true if this content is already stored, for example because the call
// was interrupted. chooseName refuses a piece above the limit.
func (r recorder) chooseName(ctx context.Context, base, sum string) (name string, kept bool, err error) {
	name = base
	for n := 2; ; n++ {
		there, err := artifact.ReadJSON[scenario.Evidence](ctx, r.store, r.fileKey(name+".meta.json"))
		if err == nil && there.SHA256 == sum {
			return name, true, nil
		}
		if errors.Is(err, artifact.ErrNotFound) {
			break
		}
		if err != nil {
			return "", false, err
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
	all, err := evidenceOf(ctx, r.store, r.layout, r.step, r.attempt, r.attempt)
	if err == nil && len(all) >= maxPieces {
		err = refuseEvidence("the step has %d pieces of evidence, the most allowed", len(all))
	}
	return name, false, err
}

// contentToStore returns the content to store, its format, and a note for the agent. Text is stored
// without credentials, and as JSON if the type requires it. Other files are stored unchanged.
func (r recorder) contentToStore(p piece, kind scenario.Kind) (content []byte, format scenario.Format, note string, err error) {
	file := ""
	if p.Path == nil {
		content = []byte(*p.Data)
	} else {
		var objection string
		file = relativeTo(r.workspace, *p.Path)
		if content, objection, err = r.read(r.workspace, file, kind.Most); err == nil && objection != "" {
			if found, ok := r.readShared(*p.Path, kind.Most); ok {
				content, objection = found, ""
			}
		}
		switch {
		case err != nil:
			return nil, format, "", err
		case objection != "":
			return nil, format, "", refuseEvidence("%s", objection)
		}
	}
	format, isText, err := kind.Format(content, file)
	if err != nil {
		return nil, format, "", refuseEvidence("%s", err.Error())
	}
	if isText {
		content, note, err = r.textToStore(content, format)
	}
	if err == nil && int64(len(content)) > kind.Most {
		err = refuseEvidence("the evidence has %d bytes, at most %d are kept: keep the part that matters", len(content), kind.Most)
	}
	return content, format, note, err
}

// textToStore returns content as text without credentials, converted to JSON if the format requires it.
func (r recorder) textToStore(content []byte, format scenario.Format) (stored []byte, note string, err error) {
	valid := strings.ToValidUTF8(string(content), "\uFFFD")
	if valid != string(content) {
		note = "; bytes that are not UTF-8 were replaced"
	}
	text := r.vault.Redact(valid)
	if format.Extension != "json" || json.Valid([]byte(text)) {
		return []byte(text), note, nil
	}
	stored, err = artifact.EncodeJSON(text)
	return stored, note, err
}

// relativeTo converts an absolute path inside a directory to a relative one. Some programs report
// absolute paths.
func relativeTo(dir, name string) string {
	if !filepath.IsAbs(name) {
		return name
	}
	real, _ := filepath.EvalSymlinks(dir) // an empty path contains no file
	for _, root := range []string{dir, real} {
		if inside, err := filepath.Rel(root, filepath.Clean(name)); err == nil && filepath.IsLocal(inside) {
			return filepath.ToSlash(inside)
		}
	}
	return name
}

// readShared reads a file that a shared server has written to its directory since the step began.
// It refuses hidden files, which belong to the server.
func (r recorder) readShared(name string, most int64) (content []byte, found bool) {
	if r.shared == nil {
		return nil, false
	}
	for _, dir := range r.shared() {
		inside := path.Clean(relativeTo(dir, name))
		if !filepath.IsLocal(inside) || strings.HasPrefix(inside, ".") || strings.Contains(inside, "/.") {
			continue
		}
		info, err := os.Lstat(filepath.Join(dir, inside))
		if err != nil || info.ModTime().Before(r.began) {
			continue
		}
		if content, objection, err := r.read(dir, inside, most); err == nil && objection == "" {
			return content, true
		}
	}
	return nil, false
}

func evidencePath(step string, attempt int, file string) string {
	return artifact.Layout{}.Evidence(step, attempt, file)
}

// evidenceOf returns the paths of a step's stored evidence in a range of attempts. Files without a
// description do not count.
func evidenceOf(ctx context.Context, store artifact.Store, layout artifact.Layout, step string, since, last int) ([]string, error) {
	paths := []string{}
	for attempt := max(1, since); attempt <= max(1, last); attempt++ {
		files, err := evidenceFiles(ctx, store, layout.Evidence(step, attempt, ""))
		if err != nil {
			return nil, err
		}
		paths = append(paths, text.Each(files, func(file string) string { return evidencePath(step, attempt, file) })...)
	}
	return paths, nil
}

func evidenceFiles(ctx context.Context, store artifact.Store, prefix string) ([]string, error) {
	stored, described := map[string]bool{}, []string{}
	for key, err := range store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(key, prefix)
		if base, ok := strings.CutSuffix(name, ".meta.json"); ok {
			described = append(described, base)
		}
		stored[name] = true
	}
	var files []string
	for _, base := range described {
		meta, err := artifact.ReadJSON[scenario.Evidence](ctx, store, prefix+base+".meta.json")
		if _, malformed := errors.AsType[*artifact.MalformedError](err); malformed || errors.Is(err, artifact.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if stored[meta.File] && strings.TrimSuffix(meta.File, path.Ext(meta.File)) == base {
			files = append(files, meta.File)
		}
	}
	return files, nil
}
