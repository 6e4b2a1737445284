package scenario

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/scenario"
)

type (
	// xmlSuite is a test suite, or the root element with all suites.
	xmlSuite struct {
		XMLName    xml.Name
		Name       string        `xml:"name,attr"`
		Tests      int           `xml:"tests,attr"`
		Failures   int           `xml:"failures,attr"`
		Errors     int           `xml:"errors,attr"`
		Skipped    int           `xml:"skipped,attr"`
		Time       string        `xml:"time,attr"`
		Timestamp  string        `xml:"timestamp,attr,omitempty"`
		Properties []xmlProperty `xml:"properties>property,omitempty"`
		Suites     []xmlSuite    `xml:"testsuite"`
		Cases      []xmlCase     `xml:"testcase"`
	}
	xmlProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	xmlCase struct {
		Name      string  `xml:"name,attr"`
		Classname string  `xml:"classname,attr"`
		Time      string  `xml:"time,attr"`
		Failure   *xmlWhy `xml:"failure"`
		Error     *xmlWhy `xml:"error"`
		Skipped   *xmlWhy `xml:"skipped"`

		// Flaky has the failures before a pass, in the format of Maven's Surefire.
		Flaky []xmlWhy `xml:"flakyFailure"`

		Out string `xml:"system-out,omitempty"`
	}
	xmlWhy struct {
		Message string `xml:"message,attr,omitempty"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes a JUnit report with a test suite for each scenario and a test for
// each step. A step without a verdict is an error.
func writeJUnit(o *order) error {
	here, _ := os.Getwd() // if it is unknown, paths are absolute
	data, err := marshalJUnit(o.runs, func(r *run, path string) string {
		file := o.project.Path(r.slug, "runs", r.id, filepath.FromSlash(path))
		if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
			return ""
		}
		if inside, err := filepath.Rel(here, file); err == nil && filepath.IsLocal(inside) {
			return filepath.ToSlash(inside)
		}
		return file
	})
	if err == nil {
		err = os.WriteFile(o.flags.junit, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	return nil
}

// locate returns the path of a piece of evidence for CI systems: relative to the working
// directory, or absolute. It returns "" if the file is not on this machine.
type locate func(r *run, path string) string

func marshalJUnit(runs []*run, at locate) ([]byte, error) {
	all := xmlSuite{XMLName: xml.Name{Local: "testsuites"}, Name: "conclave scenarios"}
	var took int64
	for _, r := range runs {
		x := suiteOf(r, at)
		all.Tests += x.Tests
		all.Failures += x.Failures
		all.Errors += x.Errors
		all.Skipped += x.Skipped
		took += r.result.DurationMS
		all.Suites = append(all.Suites, x)
	}
	all.Time = formatSeconds(took)
	body, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, err
	}
	return append([]byte(xml.Header), append(body, '\n')...), nil
}

func suiteOf(r *run, at locate) xmlSuite {
	x := xmlSuite{Name: r.slug, Time: formatSeconds(r.result.DurationMS), Timestamp: r.result.StartedAt}
	if r.result.RunID != "" {
		x.Properties = []xmlProperty{{"title", r.title}, {"run_id", r.result.RunID}, {"run_number", strconv.Itoa(r.result.RunNumber)}}
	}
	for _, s := range r.result.Steps {
		x.addCase(caseOf(r, s, at))
	}
	if problem := firstLine(r.problem); problem != "" {
		why := &xmlWhy{Message: problem, Type: string(scenario.Errored)}
		x.addCase(xmlCase{Name: "run", Classname: r.slug, Time: formatSeconds(0), Error: why})
	}
	return x
}

func (x *xmlSuite) addCase(c xmlCase) {
	x.Tests++
	switch {
	case c.Failure != nil:
		x.Failures++
	case c.Error != nil:
		x.Errors++
	case c.Skipped != nil:
		x.Skipped++
	}
	x.Cases = append(x.Cases, c)
}

func caseOf(of *run, r scenario.Result, at locate) xmlCase {
	c := xmlCase{Name: r.ID + " " + r.Title, Classname: of.slug, Time: formatSeconds(r.DurationMS)}
	why := &xmlWhy{Type: string(r.Status)}
	if r.Error != nil {
		why.Message, _, _ = strings.Cut(*r.Error, "\n")
		why.Text = *r.Error
	}
	switch r.Status {
	case scenario.Pass:
	case scenario.Fail:
		c.Failure = why
	case scenario.Errored, scenario.Cancelled, scenario.Running:
		c.Error = why
	case scenario.Skipped:
		c.Skipped = &xmlWhy{Message: "an earlier step did not pass"}
		if len(of.result.Only) > 0 && !slices.Contains(of.result.Only, r.ID) {
			c.Skipped.Message = "left out by --only"
		}
	}
	if r.Flaky {
		c.Flaky = flakyFailures(r)
	}
	c.Out = strings.Join(testOutput(of, r, at), "\n")
	return c
}

func flakyFailures(r scenario.Result) []xmlWhy {
	var all []xmlWhy
	for _, a := range r.Attempts {
		if !a.Failed() || a.Error == nil {
			continue
		}
		message, _, _ := strings.Cut(*a.Error, "\n")
		all = append(all, xmlWhy{Message: message, Type: string(a.Status), Text: *a.Error})
	}
	return all
}

// testOutput returns the lines of a test: its summary, warnings and evidence. Jenkins and GitLab
// attach files named by lines of the form [[ATTACHMENT|path]].
func testOutput(of *run, r scenario.Result, at locate) []string {
	var lines []string
	if r.Summary != "" {
		lines = append(lines, r.Summary)
	}
	for _, w := range r.Warnings {
		lines = append(lines, "warning: "+w)
	}
	attempts := r.Attempts
	if len(attempts) == 0 {
		attempts = []scenario.Attempt{{Status: r.Status, EvidencePaths: r.EvidencePaths}}
	}
	for i, a := range attempts {
		if len(attempts) > 1 {
			lines = append(lines, fmt.Sprintf("attempt %d: %s", i+1, a.Status))
		}
		for _, path := range a.EvidencePaths {
			if file := at(of, path); file != "" {
				lines = append(lines, "[[ATTACHMENT|"+file+"]]")
			} else {
				lines = append(lines, "evidence: "+path)
			}
		}
	}
	return lines
}

func formatSeconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }
