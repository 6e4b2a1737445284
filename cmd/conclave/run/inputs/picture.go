package inputs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
)

// File is a file that comes with a question.
type File struct {
	Name string // without directories
	Data []byte
}

// CheckPictures refuses files that no model can be shown, and too many of them.
func CheckPictures(files []File) error {
	var size int
	for _, f := range files {
		if err := (llm.Image{Data: f.Data}).CheckWhole(); err != nil {
			return fmt.Errorf("the picture %.200s: %w; give a whole PNG, JPEG, GIF or WebP of at most 5 MiB", f.Name, err)
		}
		size += len(f.Data)
	}
	if len(files) > artifact.MaxPictures || size > artifact.MaxPictureBytes {
		return fmt.Errorf("there are %d pictures of %d bytes; leave at most %d of %d MB together", len(files), size, artifact.MaxPictures, artifact.MaxPictureBytes>>20)
	}
	return nil
}

// StorePictures stores checked pictures once, however many questions have them, and returns where they are.
func StorePictures(ctx context.Context, store artifact.Store, files []File) ([]artifact.Picture, error) {
	if len(files) == 0 {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "conclave-pictures-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var shown []artifact.Picture
	for i, f := range files {
		name := fmt.Sprintf("%02d/%s", i+1, filepath.Base(f.Name))
		if artifact.CheckContextName(filepath.Base(f.Name)) != nil { // as long or strange as its sender likes
			name = fmt.Sprintf("%02d/picture%s", i+1, extensions[llm.Image{Data: f.Data}.Format()])
		}
		err := os.Mkdir(filepath.Join(dir, name[:2]), 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), f.Data, 0o600)
		}
		if err != nil {
			return nil, err
		}
		shown = append(shown, artifact.Picture{Path: name})
	}
	done, err := snapshot.Upload{Store: store, Dir: dir, Secrets: true, Now: time.Now}.Run(ctx)
	for i := range shown {
		shown[i].Manifest = snapshot.Reference(done.Hash)
	}
	return shown, err
}

var extensions = map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}

// readPictures reads the files of --image.
func (f *Flags) readPictures() ([]File, error) {
	var files []File
	for _, name := range f.images {
		info, err := os.Stat(name)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is no file")
		}
		if err == nil && info.Size() > artifact.MaxPictureBytes {
			err = fmt.Errorf("it has %d bytes", info.Size())
		}
		var data []byte
		if err == nil {
			data, err = os.ReadFile(name)
		}
		if err != nil {
			return nil, fmt.Errorf("--image %s: %w; name a picture", name, err)
		}
		files = append(files, File{Name: filepath.Base(name), Data: data})
	}
	return files, CheckPictures(files)
}
