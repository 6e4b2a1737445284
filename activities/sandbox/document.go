package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ledongthuc/pdf"
)

// Bounds of reading a document.
const (
	documentTime   = 20 * time.Second
	documentMemory = 512 << 20 // bytes
	documentText   = 4 << 20   // bytes of text; the rest is left out
)

// readArgument makes this binary the program that reads a document.
const (
	readArgument = "conclave-read-document"
	documentName = "document.pdf" // in the working directory
)

// DocumentError tells why a document has no text.
type DocumentError struct{ Reason string }

func (e *DocumentError) Error() string { return e.Reason }

// IsPDF reports whether content begins as a PDF document does.
func IsPDF(content []byte) bool { return bytes.HasPrefix(content, []byte("%PDF-")) }

// ReadPDF returns the text of a PDF document, at most 4 MB, with a line before each page. A stranger may
// have made the document, so a process at the host's strongest level reads it, with 20 s and 512 MB.
// The error is a *DocumentError if the document is at fault.
func ReadPDF(ctx context.Context, document io.Reader) (string, error) {
	dir, err := os.MkdirTemp("", "conclave-document-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file, err := os.OpenFile(filepath.Join(dir, documentName), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, document)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	return runReader(ctx, dir)
}

func runReader(ctx context.Context, dir string) (text string, err error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	host := Probe(ctx)
	s, err := Open(Options{Workspace: dir, Level: host.Level, Host: host, own: program, Limits: Limits{
		Time: documentTime, CPU: 2 * documentTime, Memory: documentMemory, Processes: 64, Disk: 1 << 20, Files: 100, Output: documentText,
	}, Beyond: true})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var out, fault bytes.Buffer
	exit, err := s.Run(ctx, Command{Args: []string{program, readArgument}, Stdout: &out, Stderr: &fault})
	switch {
	case err != nil:
		return "", fmt.Errorf("read a document: %w", err)
	case exit.Ended == endedOutput:
		return strings.ToValidUTF8(out.String(), "") + fmt.Sprintf("\n[the rest is left out; at most %d MB are read]", documentText>>20), nil
	case exit.Ended != "":
		return "", &DocumentError{fmt.Sprintf("it took more %s than %s and %d MB allow; give its text", exit.Ended, documentTime, documentMemory>>20)}
	case exit.Code == readFailed:
		return "", &DocumentError{strings.TrimSpace(fault.String())}
	case exit.Code != 0: // such as a fatal error of the runtime without memory
		return "", &DocumentError{fmt.Sprintf("its reader ended with %d; give its text", exit.Code)}
	}
	return out.String(), nil
}

// The reader runs during package initialization, as the child of the sandbox does.
var _ = readAndExit()

const readFailed = 3 // exit code for a document at fault

func readAndExit() bool {
	if len(os.Args) != 2 || os.Args[1] != readArgument {
		return false
	}
	limitOwnMemory(documentMemory)
	if err := writeText(os.Stdout, documentName); err != nil {
		fmt.Fprintf(os.Stderr, "%.300s", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(readFailed)
	}
	os.Exit(0)
	return true
}

// writeText writes the text of a PDF file. The library panics at damage that it does not expect.
func writeText(to io.Writer, name string) (err error) {
	defer func() {
		if p := recover(); p != nil { //nolint:forbidigo // in a process of its own, which ends
			err = fmt.Errorf("it is damaged: %v", p)
		}
	}()
	file, document, err := pdf.Open(name)
	switch {
	case errors.Is(err, pdf.ErrInvalidPassword):
		return errors.New("it is encrypted; remove its password")
	case err != nil:
		return fmt.Errorf("it is damaged: %w", err)
	}
	defer func() { _ = file.Close() }()
	found := false
	for i := range document.NumPage() {
		text := pageText(document.Page(i + 1))
		found = found || strings.TrimSpace(text) != ""
		if _, err := fmt.Fprintf(to, "[page %d]\n%s\n", i+1, strings.TrimSpace(text)); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("it has no text, its pages are pictures; give pictures of them or their text")
	}
	return nil
}
