// covers: objects with virtual functions, made and destroyed on the device; abstract bases, two bases.
#include "../check.cuh"

struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual float area() const = 0;
  __device__ virtual int sides() const { return 0; }
};

struct Named {
  int name;
  __device__ explicit Named(int name) : name(name) {}
  __device__ virtual int label() const { return name; }
};

__device__ int destroyed;

struct Rectangle : Shape, Named {
  float width, height;
  __device__ Rectangle(float width, float height) : Named(4), width(width), height(height) {}
  __device__ ~Rectangle() override { atomicAdd(&destroyed, 1); }
  __device__ float area() const override { return width * height; }
  __device__ int sides() const override { return 4; }
};

struct Square : Rectangle {
  __device__ explicit Square(float side) : Rectangle(side, side) {}
  __device__ ~Square() override { atomicAdd(&destroyed, 100); }
  __device__ int label() const override { return 40 + name; }
};

struct Circle : Shape {
  float radius;
  __device__ explicit Circle(float radius) : radius(radius) {}
  __device__ ~Circle() override { atomicAdd(&destroyed, 10000); }
  __device__ float area() const override { return radius * radius * 3; }
};

__global__ void make(Shape **shapes, Named **names, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  names[i] = nullptr;
  if (i % 3 == 0) {
    Rectangle *rectangle = new Rectangle(i, 2);
    shapes[i] = rectangle, names[i] = rectangle;
  } else if (i % 3 == 1) {
    Square *square = new Square(i);
    shapes[i] = square, names[i] = square; // the second base lies inside the object
  } else
    shapes[i] = new Circle(i);
}

// Neighbouring lanes call different functions, and meet again after the call.
__global__ void ask(Shape *const *shapes, Named *const *names, float *areas, int *sides, int *labels,
                    int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  areas[i] = shapes[i]->area();
  sides[i] = shapes[i]->sides();
  labels[i] = names[i] ? names[i]->label() : -1;
}

// Leaves no address of the heap in memory: no two replays need agree on one.
__global__ void destroy(Shape **shapes, Named **names, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  delete shapes[i];
  shapes[i] = nullptr, names[i] = nullptr;
}

int main() {
  const int count = 96;
  Buffer<Shape *> shapes(count);
  Buffer<Named *> names(count);
  Buffer<float> areas(count);
  Buffer<int> sides(count), labels(count);
  make<<<2, 64>>>(shapes, names, count);
  ask<<<2, 64>>>(shapes, names, areas, sides, labels, count);
  std::vector<float> expected_areas;
  std::vector<int> expected_sides, expected_labels;
  for (int i = 0; i < count; i++) {
    expected_areas.push_back(i % 3 == 0 ? 2 * i : i % 3 == 1 ? i * i : i * i * 3);
    expected_sides.push_back(i % 3 == 2 ? 0 : 4);
    expected_labels.push_back(i % 3 == 0 ? 4 : i % 3 == 1 ? 44 : -1);
  }
  equal("areas", areas.host(), expected_areas);
  equal("sides", sides.host(), expected_sides);
  equal("labels", labels.host(), expected_labels);
  destroy<<<2, 64>>>(shapes, names, count);
  int seen = 0;
  CHECK(cudaMemcpyFromSymbol(&seen, destroyed, sizeof(seen)));
  REQUIRE(seen == 32 * 2 + 32 * 100 + 32 * 10000);
  return ok();
}
