// An auditor that nobody here wrote the hard part of: Go's own verifier of transparency logs (golang.org/x/mod/sumdb) checks the signature
// of a checkpoint, and every hash of the log's tiles up to the root that it signs. Only the checkpoint's three lines and the bundles of leaves
// are read here, because Go's own reader of checkpoints takes only those of its module database.
//
// usage: auditor FOLDER KEY
package main

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const height = 8
const tileWidth = 1 << height

func main() {
	if len(os.Args) != 3 {
		fail("usage: auditor FOLDER KEY")
	}
	folder, tree := os.Args[1], signedTree(os.Args[1], os.Args[2])
	hashes := tlog.TileHashReader(tree, files{folder})
	for first := int64(0); first < tree.N; first += tileWidth {
		width := min(tree.N-first, tileWidth)
		leaves := bundle(folder, first/tileWidth, int(width))
		indexes := make([]int64, width)
		for place := range indexes {
			indexes[place] = tlog.StoredHashIndex(0, first+int64(place))
		}
		found, err := hashes.ReadHashes(indexes)
		if err != nil {
			fail("%v", err)
		}
		for place, leaf := range leaves {
			if tlog.RecordHash(leaf) != found[place] {
				fail("leaf %d does not have its hash", first+int64(place))
			}
		}
	}
	fmt.Printf("%d leaves\n", tree.N)
}

// signedTree is the tree that the checkpoint states, after its signature was checked.
func signedTree(folder, key string) tlog.Tree {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		fail("the key: %v", err)
	}
	opened, err := note.Open(read(folder, "checkpoint"), note.VerifierList(verifier))
	if err != nil {
		fail("the checkpoint: %v", err)
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[0] != verifier.Name() || lines[3] != "" {
		fail("the checkpoint is not of the log %s", verifier.Name())
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		fail("the size: %v", err)
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		fail("the root is not a hash")
	}
	return tlog.Tree{N: size, Hash: tlog.Hash(root)}
}

// bundle is the leaves of a bundle, each after its length in two bytes.
func bundle(folder string, number int64, width int) [][]byte {
	path := tlog.Tile{H: height, L: 0, N: number, W: width}.Path()
	rest := read(folder, "tile/entries/"+strings.TrimPrefix(path, "tile/8/0/"))
	var leaves [][]byte
	for len(rest) > 0 {
		if len(rest) < 2 || len(rest) < 2+int(binary.BigEndian.Uint16(rest)) {
			fail("bundle %d is cut off", number)
		}
		end := 2 + int(binary.BigEndian.Uint16(rest))
		leaves, rest = append(leaves, rest[2:end]), rest[end:]
	}
	if len(leaves) != width {
		fail("bundle %d has %d leaves and should have %d", number, len(leaves), width)
	}
	return leaves
}

// files reads tiles of hashes from a folder.
type files struct{ folder string }

func (files) Height() int { return height }

func (f files) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range tiles {
		path := "tile/" + strings.TrimPrefix(tile.Path(), "tile/8/")
		bytes, err := os.ReadFile(filepath.Join(f.folder, path))
		if err != nil {
			return nil, err
		}
		data = append(data, bytes)
	}
	return data, nil
}

func (files) SaveTiles([]tlog.Tile, [][]byte) {}

func read(folder, path string) []byte {
	bytes, err := os.ReadFile(filepath.Join(folder, path))
	if err != nil {
		fail("%v", err)
	}
	return bytes
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}
