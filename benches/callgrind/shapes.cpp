// Sums the areas of shapes behind a virtual call, and sorts them.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

struct Shape {
	virtual ~Shape() = default;
	virtual unsigned long area() const = 0;
};
struct Square : Shape {
	unsigned long side;
	explicit Square(unsigned long s) : side(s) {}
	unsigned long area() const override { return side * side; }
};
struct Steps : Shape {
	unsigned long n;
	explicit Steps(unsigned long s) : n(s) {}
	unsigned long area() const override
	{
		unsigned long sum = 0;
		for (unsigned long i = 0; i < n; i++)
			sum += i ^ (sum << 1);
		return sum;
	}
};

int main()
{
	std::vector<std::unique_ptr<Shape>> all;
	unsigned long x = 1;
	for (int i = 0; i < 20000; i++) {
		x = x * 6364136223846793005UL + 1442695040888963407UL;
		if (x >> 63)
			all.push_back(std::make_unique<Square>(x >> 50));
		else
			all.push_back(std::make_unique<Steps>(x >> 57));
	}
	std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a->area() < b->area(); });
	std::printf("%lu\n", all[all.size() / 2]->area());
}
