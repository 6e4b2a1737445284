package scenario

import (
	"fmt"
	"net/http" //nolint:depguard // for DetectContentType, which is pure
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"conclave/engine/text"
)

// EvidenceTool records evidence.
const EvidenceTool = "record_evidence"

// Format is a file format of evidence: an extension and a content type.
type Format struct{ Extension, ContentType string }

var (
	textFormat = Format{"txt", "text/plain; charset=utf-8"}
	jsonFormat = Format{"json", "application/json"}
	htmlFormat = Format{"html", "text/html; charset=utf-8"}
)

// Bounds of a piece of evidence, in bytes.
const (
	maxPiece     = 10 << 20
	maxRecording = 50 << 20 // most bytes of a video or a trace
)

// Kind is a type of evidence.
type Kind struct {
	name   string
	text   Format   // format of evidence that is text; zero if the type has no text
	binary []Format // formats of evidence that is not text; empty if the type has only text
	Most   int64    // bytes of a piece
}

// kinds are the types of evidence. Custom evidence that is not text keeps its file's format.
var kinds = []Kind{
	{name: "screenshot", binary: []Format{{"png", "image/png"}, {"jpg", "image/jpeg"}, {"webp", "image/webp"}}, Most: maxPiece},
	{name: "video", binary: []Format{{"webm", "video/webm"}, {"mp4", "video/mp4"}}, Most: maxRecording},
	{name: "trace", binary: []Format{{"zip", "application/zip"}}, Most: maxRecording},
	{name: "pdf", binary: []Format{{"pdf", "application/pdf"}}, Most: maxPiece},
	{name: "console_log", text: textFormat, Most: maxPiece},
	{name: "network_log", text: jsonFormat, Most: maxPiece},
	{name: "html_snapshot", text: htmlFormat, Most: maxPiece},
	{name: "db_snapshot", text: jsonFormat, Most: maxPiece},
	{name: "api_response", text: jsonFormat, Most: maxPiece},
	{name: "api_headers", text: jsonFormat, Most: maxPiece},
	{name: "stdout", text: textFormat, Most: maxPiece},
	{name: "stderr", text: textFormat, Most: maxPiece},
	{name: "exit_code", text: textFormat, Most: maxPiece},
	{name: custom, text: jsonFormat, Most: maxRecording},
}

const custom = "custom"

var (
	evidenceForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	extensionForm = regexp.MustCompile(`^[a-z0-9]{1,10}$`)
)

// EvidenceTypes returns the names of the types of evidence.
func EvidenceTypes() []string {
	return text.Each(kinds, func(k Kind) string { return k.name })
}

// Evidence describes one piece of evidence, in <name>.meta.json.
type Evidence struct {
	RunID       string `json:"run_id"`
	StepID      string `json:"step_id"`
	Type        string `json:"type"`
	Name        string `json:"name"`
	File        string `json:"file"` // file name: <name>.<ext>
	CapturedAt  string `json:"captured_at"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256"`
	ContentType string `json:"content_type"`
}

// CheckEvidence returns the kind of a type of evidence, and the name without a file
// extension. The error is for the agent.
func CheckEvidence(name, typ string) (Kind, string, error) {
	if !evidenceForm.MatchString(name) || strings.Contains(name, "..") {
		return Kind{}, "", fmt.Errorf("the name %.80q: it takes up to 100 letters, digits, ., _ or -, the first a letter or digit, such as before", name)
	}
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.name == typ })
	if i < 0 {
		return Kind{}, "", fmt.Errorf("there is no type %.40q of evidence; the types are %s", typ, strings.Join(EvidenceTypes(), ", "))
	}
	k := kinds[i]
	if k.hasExtension(strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))) {
		name = strings.TrimSuffix(name, path.Ext(name))
	}
	if strings.HasSuffix(strings.ToLower(name), ".meta") { // the name of a description
		return Kind{}, "", fmt.Errorf("the name %.80q: names that end in .meta are taken", name)
	}
	return k, name, nil
}

func (k Kind) hasExtension(extension string) bool {
	return slices.ContainsFunc(append([]Format{k.text}, k.binary...), func(f Format) bool { return extension != "" && f.Extension == extension })
}

// NeedsFile reports whether evidence of the kind must be a file, because it is not text.
func (k Kind) NeedsFile() bool { return k.text == Format{} }

// Format returns the format of content and whether it is text. The content was read from
// file or, if file is empty, given as text. The error is for the agent.
func (k Kind) Format(content []byte, file string) (f Format, asText bool, err error) {
	found := http.DetectContentType(content)
	if i := slices.IndexFunc(k.binary, func(f Format) bool { return f.ContentType == found }); i >= 0 {
		return k.binary[i], false, nil
	}
	switch {
	case k.NeedsFile():
		accepted := text.Each(k.binary, func(f Format) string { return f.Extension })
		return f, false, fmt.Errorf("the file is %s: a %s is a file of the format %s", found, k.name, strings.Join(accepted, " or "))
	case k.name == custom && file != "" && !utf8.Valid(content):
		extension := strings.ToLower(strings.TrimPrefix(path.Ext(file), "."))
		if !extensionForm.MatchString(extension) || extension == "json" {
			extension = "bin"
		}
		return Format{extension, found}, false, nil
	}
	return k.text, true, nil
}
