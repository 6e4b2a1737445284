package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"conclave/cmd/conclave/hall"
	"conclave/engine/eval"
	"conclave/engine/filelock"
)

// Files of an output directory.
const (
	settingsFile = "eval.json"
	samplesFile  = "samples.jsonl"
	summaryFile  = "summary.json"
	pageFile     = "index.html"
	lockFile     = ".lock"
	pagesDir     = "sessions"
)

// settings are the inputs that produced the samples of a directory.
type settings struct {
	ID        string   `json:"id"`
	Data      string   `json:"data"`
	DataHash  string   `json:"data_sha256"`
	Team      string   `json:"team"` // hash of its configuration
	Source    string   `json:"source"`
	Scorer    string   `json:"scorer"`
	Arms      []string `json:"arms"` // arms of the last run, in order
	Epochs    int      `json:"epochs"`
	Questions int      `json:"questions"`
	Version   string   `json:"conclave"`
	Offline   string   `json:"offline,omitempty"` // says that the built-in model answered

	// Others has the hashes of the teams of other arms and of the grader.
	Others map[string]string `json:"others,omitempty"`
}

// arms parses the names of the arms.
func (s settings) arms() ([]eval.Arm, error) { return eval.ParseArms(strings.Join(s.Arms, ",")) }

// output is the directory of an evaluation. It is safe for concurrent use.
type output struct {
	dir      string
	settings settings
	lock     *os.File

	mu      sync.Mutex
	file    *os.File
	samples []eval.Sample
	known   map[eval.Key]bool
}

// open prepares the directory for samples with these settings and reads the existing samples.
func open(dir string, s settings) (*output, error) {
	if err := os.MkdirAll(filepath.Join(dir, pagesDir), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of --out: %w", err)
	}
	lock, err := filelock.Try(filepath.Join(dir, lockFile), filelock.Exclusive)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if lock == nil {
		return nil, fmt.Errorf("another eval run writes to %s; wait for it, or choose another --out", dir)
	}
	o, err := readDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		o, err = &output{dir: dir}, nil
	}
	if err == nil {
		err = o.adopt(s)
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	o.lock = lock
	return o, nil
}

// adopt opens the samples file for appending. It refuses samples produced with other settings.
func (o *output) adopt(s settings) error {
	was := o.settings
	switch {
	case was.ID == "":
	case was.ID != s.ID:
		return fmt.Errorf("%s belongs to the evaluation %s; choose another --out, or --id %s", o.dir, was.ID, was.ID)
	default:
		if err := s.agree(o.dir, was.identity()); err != nil {
			return err
		}
	}
	if earlier := maps.Clone(was.Others); earlier != nil {
		maps.Copy(earlier, s.Others)
		s.Others = earlier
	}
	for _, arm := range was.Arms {
		if !slices.Contains(s.Arms, arm) {
			s.Arms = append(s.Arms, arm) // an arm of an earlier run
		}
	}
	o.settings, o.known = s, map[eval.Key]bool{}
	for _, sample := range o.samples {
		o.known[sample.Key()] = true
	}
	if err := o.writeJSON(settingsFile, s); err != nil {
		return err
	}
	// Rewriting the file drops a truncated last line.
	var whole []byte
	for _, sample := range o.samples {
		line, err := json.Marshal(sample)
		if err != nil {
			return fmt.Errorf("encode a sample: %w", err)
		}
		whole = append(append(whole, line...), '\n')
	}
	if err := o.write(samplesFile, whole); err != nil {
		return err
	}
	var err error
	if o.file, err = os.OpenFile(filepath.Join(o.dir, samplesFile), os.O_APPEND|os.O_WRONLY, 0o644); err != nil { //nolint:gosec // results are meant to be shared
		return fmt.Errorf("write the samples: %w", err)
	}
	return nil
}

// read reads an evaluation, given by its directory or its ID.
func read(of string) (*output, error) {
	o, err := readDir(of)
	if errors.Is(err, fs.ErrNotExist) {
		return readDir("eval-" + of)
	}
	return o, err
}

func readDir(dir string) (*output, error) {
	data, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err != nil {
		return nil, fmt.Errorf("read the evaluation: %w", err)
	}
	o := &output{dir: dir}
	if err := json.Unmarshal(data, &o.settings); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, settingsFile), err)
	}
	samples := filepath.Join(dir, samplesFile)
	if data, err = os.ReadFile(samples); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the samples: %w", err)
	}
	if o.samples, err = eval.ReadSamples(data); err != nil {
		return nil, fmt.Errorf("read %s: %w", samples, err)
	}
	return o, nil
}

// has reports whether a question has an outcome in the epoch and arm.
func (o *output) has(k eval.Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[k]
}

// add appends an outcome and syncs it to disk.
func (o *output) add(s eval.Sample) error {
	line, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode a sample: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the samples: %w", err)
	}
	if err := o.file.Sync(); err != nil {
		return fmt.Errorf("write the samples: %w", err)
	}
	o.samples, o.known[s.Key()] = append(o.samples, s), true
	return nil
}

// finish writes summary.json and index.html.
func (o *output) finish() (eval.Summary, error) {
	arms, err := o.settings.arms()
	if err != nil {
		return eval.Summary{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := eval.Summarize(o.samples, arms)
	if err := o.writeJSON(summaryFile, s); err != nil {
		return s, err
	}
	html, err := draw(o.settings, s, o.samples, o.pages())
	if err == nil {
		err = o.write(pageFile, html)
	}
	return s, err
}

// pages returns the sessions whose pages are in the directory.
func (o *output) pages() map[string]bool {
	there := map[string]bool{}
	entries, _ := os.ReadDir(filepath.Join(o.dir, pagesDir)) // without a page there is no link
	for _, e := range entries {
		there[e.Name()] = true
	}
	return there
}

func (o *output) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return o.write(name, append(data, '\n'))
}

// write replaces a file as a whole, so that a kill leaves the old one or the new one.
func (o *output) write(name string, data []byte) error {
	file := filepath.Join(o.dir, name)
	err := os.WriteFile(file+".new", data, 0o644) //nolint:gosec // results are meant to be shared
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (o *output) close() {
	if o.file != nil {
		_ = o.file.Close()
	}
	if o.lock != nil {
		_ = o.lock.Close()
	}
}

// report prints the report of an evaluation and rewrites its files.
func report(c *hall.CLI, of string) error {
	o, err := read(of)
	if err != nil {
		return fmt.Errorf("%w; name the ID or the directory of an evaluation", err)
	}
	if len(o.samples) == 0 {
		return hall.Exitf(hall.ExitNoAnswer, "the evaluation %s has no outcome yet", of)
	}
	s, err := o.finish()
	if err != nil {
		return err
	}
	return show(c, s)
}
