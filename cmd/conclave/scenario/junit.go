package scenario

import (
	"encoding/xml"
	"fmt"
	"os"
	"strconv"
	"strings"

	"conclave/engine/scenario"
)

type (
	// xmlSuite is a suite, or the root, which contains the suites.
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
		Out       string  `xml:"system-out,omitempty"`
	}
	xmlWhy struct {
		Message string `xml:"message,attr,omitempty"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes a JUnit report: a test suite for each scenario and a test for each
// step. A step without a verdict is an error.
func writeJUnit(file string, runs []*run) error {
	data, err := junit(runs)
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	return nil
}

func junit(runs []*run) ([]byte, error) {
	all := xmlSuite{XMLName: xml.Name{Local: "testsuites"}, Name: "conclave scenarios"}
	var took int64
	for _, r := range runs {
		x := suiteOf(r)
		all.Tests += x.Tests
		all.Failures += x.Failures
		all.Errors += x.Errors
		all.Skipped += x.Skipped
		took += r.result.DurationMS
		all.Suites = append(all.Suites, x)
	}
	all.Time = seconds(took)
	body, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, err
	}
	return append([]byte(xml.Header), append(body, '\n')...), nil
}

func suiteOf(r *run) xmlSuite {
	x := xmlSuite{Name: r.slug, Time: seconds(r.result.DurationMS), Timestamp: r.result.StartedAt}
	if r.result.RunID != "" {
		x.Properties = []xmlProperty{{"title", r.title}, {"run_id", r.result.RunID}, {"run_number", strconv.Itoa(r.result.RunNumber)}}
	}
	for _, s := range r.result.Steps {
		x.add(caseOf(r.slug, s))
	}
	if problem := firstLine(r.problem); problem != "" {
		why := &xmlWhy{Message: problem, Type: string(scenario.Errored)}
		x.add(xmlCase{Name: "run", Classname: r.slug, Time: seconds(0), Error: why})
	}
	return x
}

func (x *xmlSuite) add(c xmlCase) {
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

func caseOf(slug string, r scenario.Result) xmlCase {
	c := xmlCase{Name: r.ID + " " + r.Title, Classname: slug, Time: seconds(r.DurationMS)}
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
	}
	output := []string{}
	if r.Summary != "" {
		output = append(output, r.Summary)
	}
	for _, path := range r.EvidencePaths {
		output = append(output, "evidence: "+path)
	}
	for _, w := range r.Warnings {
		output = append(output, "warning: "+w)
	}
	c.Out = strings.Join(output, "\n")
	return c
}

func seconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }
