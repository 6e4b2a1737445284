package scenario

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// EvidenceTool records evidence.
const EvidenceTool = "record_evidence"

// kind is a type of evidence: the extension and the content type of its file.
type kind struct{ name, extension, content string }

// kinds are the types of evidence.
var kinds = []kind{
	{"screenshot", "png", "image/png"},
	{"console_log", "txt", "text/plain; charset=utf-8"},
	{"network_log", "json", "application/json"},
	{"html_snapshot", "html", "text/html; charset=utf-8"},
	{"db_snapshot", "json", "application/json"},
	{"api_response", "json", "application/json"},
	{"api_headers", "json", "application/json"},
	{"stdout", "txt", "text/plain; charset=utf-8"},
	{"stderr", "txt", "text/plain; charset=utf-8"},
	{"exit_code", "txt", "text/plain; charset=utf-8"},
	{"custom", "json", "application/json"},
}

var evidenceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// EvidenceTypes returns the names of the types of evidence.
func EvidenceTypes() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Evidence describes one piece of evidence, in <name>.meta.json.
type Evidence struct {
	RunID       string `json:"run_id"`
	StepID      string `json:"step_id"`
	Type        string `json:"type"`
	Name        string `json:"name"`
	File        string `json:"file"` // <name>.<ext>
	CapturedAt  string `json:"captured_at"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256"`
	ContentType string `json:"content_type"`
}

// CheckEvidence returns the file name and the content type of evidence with the
// given name and type. The error is for the agent.
func CheckEvidence(name, typ string) (file, contentType string, err error) {
	if !evidenceForm.MatchString(name) || strings.Contains(name, "..") {
		return "", "", fmt.Errorf("the name %.80q: it takes up to 100 letters, digits, ., _ or -, the first a letter or digit, such as before", name)
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == typ })
	if i < 0 {
		return "", "", fmt.Errorf("there is no type %.40q of evidence; the types are %s", typ, strings.Join(EvidenceTypes(), ", "))
	}
	k := kinds[i]
	if ext := "." + k.extension; strings.EqualFold(path.Ext(name), ext) {
		name = strings.TrimSuffix(name, path.Ext(name))
	}
	if strings.HasSuffix(strings.ToLower(name), ".meta") { // the name of a description
		return "", "", fmt.Errorf("the name %.80q: names that end in .meta are taken", name)
	}
	return name + "." + k.extension, k.content, nil
}
