/* Classifies rows of raw float32 values with a network from files, without Python.
 *
 *     classify model-symbol.json model-0000.params values.bin 8
 *
 * values.bin has rows of 8 values each; further numbers are further axes (3 224 224). Prints for
 * each row the best class and its score. */
#include <mxlite/predict.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_AXES = 8 };

static void check(int status) {
  if (status == 0) return;
  fprintf(stderr, "%s\n", mxlite_predict_error());
  exit(1);
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  fseek(file, 0, SEEK_END);
  const long end = ftell(file);
  rewind(file);
  void* content = end > 0 ? malloc((size_t)end) : NULL;
  if (!content || fread(content, 1, (size_t)end, file) != (size_t)end) {
    fprintf(stderr, "%s: cannot be read or is empty\n", path);
    exit(1);
  }
  fclose(file);
  *size = (size_t)end;
  return content;
}

int main(int argc, char** argv) {
  if (argc < 5 || argc > 4 + MAX_AXES - 1) {
    fprintf(stderr, "usage: %s SYMBOL PARAMS VALUES EXTENT...\n", argv[0]);
    return 2;
  }
  size_t bytes = 0;
  float* values = read_file(argv[3], &bytes);

  /* The shape of one row from the command line; the number of rows from the size of the file. */
  int64_t shape[MAX_AXES] = {0};
  const int ndim = argc - 3;
  size_t row = sizeof(float);
  for (int i = 1; i < ndim; ++i) {
    shape[i] = atoll(argv[3 + i]);
    row *= (size_t)shape[i];
  }
  if (row == 0 || bytes % row != 0) {
    fprintf(stderr, "%s: the size must be a multiple of %zu bytes, got %zu\n", argv[3], row, bytes);
    return 1;
  }
  shape[0] = (int64_t)(bytes / row);

  const char* name = "data";
  mxlite_predictor* predictor = NULL;
  check(mxlite_predict_create_from_files(argv[1], argv[2], MXLITE_CPU, 0, 1, &name, &ndim, shape,
                                         NULL, &predictor));
  int input = 0;
  check(mxlite_predict_find_input(predictor, name, &input));
  check(mxlite_predict_set_input(predictor, input, values, bytes));
  check(mxlite_predict_forward(predictor));

  int dtype = 0, out_ndim = 0;
  const int64_t* out_shape = NULL;
  check(mxlite_predict_output(predictor, 0, NULL, &dtype, &out_ndim, &out_shape));
  if (dtype != MXLITE_FLOAT32 || out_ndim != 2) {
    fprintf(stderr, "the network must return float32 scores of shape (rows, classes)\n");
    return 1;
  }
  const size_t rows = (size_t)out_shape[0], classes = (size_t)out_shape[1];
  float* scores = malloc(rows * classes * sizeof(float));
  if (!scores) return 1;
  check(mxlite_predict_get_output(predictor, 0, scores, rows * classes * sizeof(float)));
  for (size_t i = 0; i < rows; ++i) {
    size_t best = 0;
    for (size_t k = 1; k < classes; ++k)
      if (scores[i * classes + k] > scores[i * classes + best]) best = k;
    printf("row %zu: class %zu, score %.9g\n", i, best, scores[i * classes + best]);
  }
  free(scores);
  free(values);
  check(mxlite_predict_free(predictor));
  return 0;
}
